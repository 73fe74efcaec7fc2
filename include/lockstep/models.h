/* models.h: the bundled networks. Each is an ls_model_fn for ls_net_build. Their sources in models/
 * include public headers only, so they can be copied and changed.
 *
 *     ls_net_build(ctx, ls_resnet20, &(ls_model_options){ .n_classes = 10 }, &config)
 *
 * Layers have torchvision's names ("layer1.0.conv1", "layer2.0.downsample.0", "fc"), so that
 * torchvision's weights can be loaded. x [N,H,W,C] -> logits [N,n_classes]. */
#ifndef LOCKSTEP_MODELS_H
#define LOCKSTEP_MODELS_H

#include <lockstep/nn.h>

LS_BEGIN_DECLARATIONS

typedef enum ls_stem {
    LS_STEM_AUTO,  /* small for resnet20 to resnet110 and for images of height below 64 */
    LS_STEM_SMALL, /* 3x3, stride 1: for images of about 32x32 */
    LS_STEM_LARGE  /* 7x7, stride 2, then a 3x3 max pool of stride 2: for about 224x224 */
} ls_stem;

/* An option that a model does not have must be 0, else ls_net_build fails with LS_ERR_INVALID. */
typedef struct ls_model_options {
    int64_t n_classes; /* 0 = the default in the table of models: 10 or 1000 */
    /* Probability of the dropout layers, in [0,1): 0 = 0.2 for mobilenet_v2, 0.5 for vgg16_bn, none
     * for wide_resnet28_10; LS_ZERO = none. The other models have no dropout. */
    float dropout;
    /* ResNets: */
    ls_stem stem;
    /* The weight of each block's last batch norm begins at 0 (Goyal et al. 2017, section 5.1). */
    bool zero_init_residual;
    /* Where the shape changes, a shortcut takes every second pixel and adds channels of zeros
     * (option A of He et al. 2015) instead of a 1x1 convolution (option B). */
    bool parameter_free_shortcuts;
    LS_RESERVED(8);
} ls_model_options;

/* "Deep Residual Learning for Image Recognition" (He et al. 2015), section 4.2: for 32x32. */
LS_API ls_node *ls_resnet20(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet32(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet44(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet56(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet110(ls_graph *graph, ls_node *x, const void *options);

/* Section 4.1, in the variant that torchvision uses (ResNet v1.5): a bottleneck's stride is in its
 * 3x3 convolution. */
LS_API ls_node *ls_resnet18(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet34(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet50(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet101(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet152(ls_graph *graph, ls_node *x, const void *options);

/* torchvision's variants of resnet50: 3x3 convolutions of twice the width ("Wide Residual
 * Networks", Zagoruyko & Komodakis 2016), and of twice the width in 32 groups ("Aggregated Residual
 * Transformations for Deep Neural Networks", Xie et al. 2016). */
LS_API ls_node *ls_wide_resnet50_2(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnext50_32x4d(ls_graph *graph, ls_node *x, const void *options);

/* "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (Sandler et al. 2018), table 2, with
 * torchvision's names ("features.1.conv.0.0", "classifier.1") and initial values. For 224x224;
 * images are reduced 32 times. */
LS_API ls_node *ls_mobilenet_v2(ls_graph *graph, ls_node *x, const void *options);

/* VGG-16 with batch norm (Simonyan & Zisserman 2014, table 1, D), with torchvision's names and
 * initial values. LS_ERR_UNSUPPORTED unless height / 32 and width / 32, rounded down, are the same
 * multiple of 7, as for 224 to 255 pixels: the adaptive pooling before the classifier has windows
 * of equal size only. */
LS_API ls_node *ls_vgg16_bn(ls_graph *graph, ls_node *x, const void *options);

/* WRN-28-10 ("Wide Residual Networks", Zagoruyko & Komodakis 2016): for 32x32. Names and initial
 * values of github.com/xternalz/WideResNet-pytorch: "block1.layer.0.conv1", "fc". */
LS_API ls_node *ls_wide_resnet28_10(ls_graph *graph, ls_node *x, const void *options);

/* A multilayer perceptron: two hidden layers of 512 units with ReLU, for small images of any size.
 * Parameters: fc1, fc2, fc3. */
LS_API ls_node *ls_mlp(ls_graph *graph, ls_node *x, const void *options);

/* LeNet-5 (LeCun et al. 1998) with ReLU and max pooling: for 28x28 and 32x32; LS_ERR_SHAPE for
 * sides below 12. Parameters: conv1, conv2, fc1, fc2, fc3. Its only option is n_classes (0 = 10).
 */
LS_API ls_node *ls_lenet5(ls_graph *graph, ls_node *x, const void *options);

/* The table of bundled models. */
typedef struct ls_model {
    const char *name; /* "resnet20" */
    ls_model_fn function;
    int64_t image_size; /* of the paper's dataset: 28, 32 or 224 */
    int64_t n_classes;  /* the default: 10 or 1000 */
    bool resnet;        /* has the options of ResNets */
    double dropout;     /* the default of the option dropout; below 0 = no such option */
    LS_RESERVED(8);
} ls_model;
/* The i-th bundled model, in the order above; NULL beyond the last. */
LS_API const ls_model *ls_model_at(int i);
/* NULL if the name is unknown. */
LS_API const ls_model *ls_model_find(const char *name);
#ifndef LOCKSTEP_MINIMAL
/* The model of that name, which is not NULL. Returns NULL with LS_ERR_SETTING if it is unknown: the
 * error names the most similar model, or its hint names all of them. Returns NULL for ctx NULL and
 * after an earlier error, too. */
LS_API const ls_model *ls_model_require(ls_context *ctx, const char *name);
/* Writes the names of all bundled models, with commas between. */
LS_API void ls_model_list(char *out, size_t size);
#endif

/* Model functions call this: it sets *out to the options, NULL = all defaults, with the defaults of
 * `model`, of which name, n_classes, resnet and dropout are read. Returns false, with
 * LS_ERR_INVALID in the graph's context, if an option is set that the model does not have. */
LS_API bool ls_model_resolve_options(ls_graph *graph, const ls_model *model, const void *options,
                                     ls_model_options *out);

LS_END_DECLARATIONS

#endif
