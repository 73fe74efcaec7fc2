/* 03_custom_op.c: an op and a loss of one's own in a graph with two inputs and two outputs, and the
 * check of their gradients.
 *
 * A small regression: from a point (x, y) to the target t, through the activation
 * swish(a) = a * sigmoid(a) (Ramachandran et al. 2017), with the loss mean(log cosh(p - t)).
 * Neither is built in: an op is a pair of callbacks, forward and backward, over plain arrays. */
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>

enum { BATCH = 64, HIDDEN = 32 };

/* ---- swish: one input, one output of the same shape ---- */

static ls_status swish_forward(const ls_custom_op_call *call)
{
    const float *a = call->inputs[0];
    float *y = call->output;
    const int64_t n = ls_shape_element_count(&call->output_spec.shape);
    for (int64_t i = 0; i < n; i++) y[i] = a[i] / (1 + expf(-a[i]));
    return LS_OK;
}

/* d swish = s + a s (1 - s), s = sigmoid(a). */
static ls_status swish_backward(const ls_custom_op_call *call)
{
    const float *a = call->inputs[0], *dy = call->output_gradient;
    const int64_t n = ls_shape_element_count(&call->output_spec.shape);
    for (int64_t i = 0; i < n; i++) {
        const float s = 1 / (1 + expf(-a[i]));
        call->input_gradients[0][i] = dy[i] * (s + a[i] * s * (1 - s));
    }
    return LS_OK;
}

static ls_node *swish(ls_graph *g, const char *name, ls_node *x)
{
    const ls_custom_op_config op = { .kind = "swish",
                                     .output = { LS_F32, ls_node_shape(x) },
                                     .forward = swish_forward,
                                     .backward = swish_backward };
    return ls_custom_op(g, name, 1, &x, &op);
}

/* ---- log cosh: prediction [N,1] and target [N,1] to one number. A loss is an op like any other.
 */

static ls_status log_cosh_forward(const ls_custom_op_call *call)
{
    const float *p = call->inputs[0], *t = call->inputs[1];
    const int64_t n = ls_shape_element_count(&call->input_specs[0].shape);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += log(cosh((double)p[i] - (double)t[i]));
    *(float *)call->output = (float)(sum / (double)n);
    return LS_OK;
}

static ls_status log_cosh_backward(const ls_custom_op_call *call)
{
    const float *p = call->inputs[0], *t = call->inputs[1];
    const int64_t n = ls_shape_element_count(&call->input_specs[0].shape);
    for (int64_t i = 0; i < n; i++) {
        const float slope = tanhf(p[i] - t[i]) * call->output_gradient[0] / (float)n;
        if (call->input_gradients[0]) call->input_gradients[0][i] = slope;
        if (call->input_gradients[1]) call->input_gradients[1][i] = -slope;
    }
    return LS_OK;
}

static ls_node *log_cosh(ls_graph *g, ls_node *prediction, ls_node *target)
{
    ls_node *both[] = { prediction, target };
    const ls_custom_op_config op = { .kind = "log_cosh",
                                     .output = { LS_F32, LS_SHAPE(1) },
                                     .forward = log_cosh_forward,
                                     .backward = log_cosh_backward };
    return ls_custom_op(g, "log_cosh", 2, both, &op);
}

/* ---- The net: input "input" is the points, input "target" what they should give. ---- */

static ls_node *model(ls_graph *g, ls_node *points, const void *options)
{
    (void)options;
    ls_node *target = ls_input(g, "target", (ls_spec){ LS_F32, LS_SHAPE(BATCH, 1) });
    ls_node *h = swish(g, "swish1", ls_linear(g, "fc1", points, HIDDEN, NULL));
    h = ls_output(g, "hidden", swish(g, "swish2", ls_linear(g, "fc2", h, HIDDEN, NULL)));
    ls_node *prediction = ls_linear(g, "fc3", h, 1, NULL);
    ls_loss(g, "log_cosh", log_cosh(g, prediction, target), 1);
    return prediction; /* the output called "output" */
}

/* Loss of the fed batch with one parameter's first element moved by `delta`. */
static ls_status loss_at(ls_net *net, const ls_tensor *points, const ls_tensor *target,
                         ls_tensor *parameter, float delta, double *loss)
{
    float *value = ls_tensor_data(parameter); /* the CPU's memory is ours to touch */
    const float before = *value;
    *value += delta;
    LS_TRY(ls_net_feed(net, "input", points));
    LS_TRY(ls_net_feed(net, "target", target));
    LS_TRY(ls_net_forward(net, LS_MODE_TRAIN));
    *value = before;
    return ls_net_loss(net, loss);
}

/* Compares the gradient of each parameter's first element with (loss(+h) - loss(-h)) / 2h. */
static ls_status check_gradients(ls_net *net, const ls_tensor *points, const ls_tensor *target,
                                 double *worst)
{
    const float h = 1e-2f;
    *worst = 0;
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info e = ls_net_parameter_at(net, i);
        double loss, plus, minus;
        LS_TRY(loss_at(net, points, target, e.value, 0, &loss));
        LS_TRY(ls_net_backward(net));
        const double gradient = (double)*(const float *)ls_tensor_data_const(e.gradient);
        LS_TRY(loss_at(net, points, target, e.value, h, &plus));
        LS_TRY(loss_at(net, points, target, e.value, -h, &minus));
        const double wanted = (plus - minus) / (2 * (double)h);
        const double error = fabs(gradient - wanted) / (fabs(wanted) + 1e-2);
        printf("%-12s gradient %9.6f, by differences %9.6f\n", e.name, gradient, wanted);
        *worst = fmax(*worst, error);
    }
    return LS_OK;
}

static ls_status run(ls_context *ctx, double *worst, double *first, double *last)
{
    ls_tensor *points = ls_tensor_open(ctx, LS_F32, LS_SHAPE(BATCH, 2));
    ls_tensor *target = ls_tensor_open(ctx, LS_F32, LS_SHAPE(BATCH, 1));
    const ls_net_config training = { .input = { .image = { LS_F32, LS_SHAPE(BATCH, 2) } } };
    ls_net *net = ls_net_build(ctx, model, NULL, &training);
    ls_optimizer *opt = ls_adam(net, NULL);
    LS_TRY(ls_tensor_random_uniform(points, 0, -2, 2));
    LS_TRY(ls_context_status(ctx));
    const float *xy = ls_tensor_data_const(points);
    float *t = ls_tensor_data(target);
    for (int i = 0; i < BATCH; i++) t[i] = sinf(xy[2 * i]) * xy[2 * i + 1];

    LS_TRY(check_gradients(net, points, target, worst));
    for (int step = 0; step < 500; step++) {
        LS_TRY(loss_at(net, points, target, ls_net_parameter(net, "fc1.bias"), 0, last));
        LS_TRY(ls_net_backward(net));
        LS_TRY(ls_optimizer_step(opt, 0.01));
        if (step == 0) *first = *last;
    }
    const ls_shape *hidden = ls_tensor_shape(ls_net_output(net, "hidden"));
    printf("loss %.4f -> %.4f over %d hidden values\n", *first, *last, (int)hidden->dims[1]);
    return ls_context_status(ctx);
}

int main(void)
{
    ls_context *ctx = ls_context_open(NULL);
    double worst = 1, first = 0, last = 1;
    const ls_status status = run(ctx, &worst, &first, &last);
    if (status != LS_OK)
        fprintf(stderr, "%s: %s\n", ls_status_text(status), ls_context_message(ctx));
    ls_context_close(&ctx);
    return status != LS_OK || worst > 0.01 || last > 0.05 * first;
}
