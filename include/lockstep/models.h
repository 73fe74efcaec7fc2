/* models.h: the bundled networks. Each is an ls_model_fn for ls_net_build. Their sources in models/
 * include public headers only, so they can be copied and changed.
 *
 *     ls_net_build(ctx, ls_resnet20, &(ls_resnet_options){ .n_classes = 10 }, &config)
 *
 * Layers have torchvision's names ("layer1.0.conv1", "layer2.0.downsample.0", "fc"), so that its
 * weights can be loaded. x [N,H,W,3] -> logits [N,n_classes]. */
#ifndef LOCKSTEP_MODELS_H
#define LOCKSTEP_MODELS_H

#include <lockstep/nn.h>

LS_BEGIN_DECLARATIONS

typedef enum ls_stem {
    LS_STEM_AUTO,  /* small for resnet20 to resnet110 and for images of height below 64 */
    LS_STEM_SMALL, /* 3x3, stride 1: for images of about 32x32 */
    LS_STEM_LARGE  /* 7x7, stride 2, then a 3x3 max pool of stride 2: for about 224x224 */
} ls_stem;

typedef struct ls_resnet_options {
    int64_t n_classes; /* 0 = 10 for resnet20 to resnet110, 1000 for the others */
    ls_stem stem;
    /* The weight of each block's last batch norm begins at 0 (Goyal et al. 2017, section 5.1). */
    bool zero_init_residual;
    /* Where the shape changes, a shortcut takes every second pixel and adds channels of zeros
     * (option A of He et al. 2015) instead of a 1x1 convolution (option B). */
    bool parameter_free_shortcuts;
} ls_resnet_options;

/* "Deep Residual Learning for Image Recognition" (He et al. 2015), section 4.2: for 32x32. */
LS_API ls_node *ls_resnet20(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet32(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet44(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet56(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet110(ls_graph *graph, ls_node *x, const void *options);

/* Section 4.1, torchvision's version 1.5: the stride of a bottleneck is in its 3x3 convolution. */
LS_API ls_node *ls_resnet18(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet34(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet50(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet101(ls_graph *graph, ls_node *x, const void *options);
LS_API ls_node *ls_resnet152(ls_graph *graph, ls_node *x, const void *options);

/* The same by name. */
typedef struct ls_model {
    const char *name; /* "resnet20" */
    ls_model_fn function;
    int64_t image_size; /* of the paper's dataset: 32 or 224 */
    int64_t n_classes;  /* the default: 10 or 1000 */
} ls_model;
/* The i-th bundled model, in the order above; NULL beyond the last. */
LS_API const ls_model *ls_model_at(int i);
/* NULL if the name is unknown. */
LS_API const ls_model *ls_model_find(const char *name);

LS_END_DECLARATIONS

#endif
