/* compare_report.c: see compare_side.h. */
#include "commands/compare_side.h"
#include "io/json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- As JSON ---- */

static const char *const found_names[] = {
    [LS__FOUND_NOTHING] = "nothing",     [LS__FOUND_EARLIER] = "optimizer_state",
    [LS__FOUND_LR] = "learning_rate",    [LS__FOUND_BATCH] = "batch",
    [LS__FOUND_STATE] = "earlier_value", [LS__FOUND_OP] = "op",
    [LS__FOUND_PROGRAM] = "program"
};

static json_t *op_json(const ls__trace_op *op)
{
    if (op->n_values == 0) return json_null();
    return json_pack("{s:i, s:s, s:s, s:s, s:b}", "number", op->number, "kind", op->kind, "name",
                     op->name, "kernel", op->kernel, "backward", op->backward);
}

/* The index of an element: [n, h, w, c]. */
static json_t *index_json(const ls_shape *shape, int64_t element)
{
    json_t *out = json_array();
    for (int d = shape->n_dims - 1; d >= 0; d--) {
        json_array_insert_new(out, 0, json_integer(element % shape->dims[d]));
        element /= shape->dims[d];
    }
    return out;
}

static json_t *element_json(const ls__finding *f)
{
    char shape[LS_SHAPE_TEXT_SIZE], values[2][32];
    for (int i = 0; i < 2; i++) snprintf(values[i], sizeof(values[i]), "%.9g", f->values[i]);
    return json_pack("{s:s, s:s?, s:s, s:s, s:o, s:[s, s], s:I, s:I, s:I}", "role", f->value.role,
                     "parameter", f->value.parameter, "type", ls_dtype_name(f->value.dtype),
                     "shape", ls_shape_text(&f->value.shape, shape, sizeof(shape)), "index",
                     index_json(&f->value.shape, f->element), "values", values[0], values[1],
                     "ulps", (json_int_t)f->ulps, "different_elements", (json_int_t)f->n_different,
                     "elements", (json_int_t)f->value.count);
}

static json_t *place_json(const compare_side runs[2], const ls__finding *f)
{
    json_t *out = json_pack("{s:I, s:[]}", "place", (json_int_t)f->place, "images");
    for (int i = 0; i < 2 && f->place >= 0; i++) {
        const char *path = ls_dataset_sample_path(runs[i].run.train_data, f->samples[i]);
        json_array_append_new(json_object_get(out, "images"),
                              json_pack("{s:I, s:I, s:o}", "sample", (json_int_t)f->samples[i],
                                        "label", (json_int_t)f->labels[i], "file",
                                        ls__json_text(runs[i].run.ctx, path)));
    }
    return out;
}

json_t *compare_report(const compare_side runs[2], const ls__compare_side sides[2],
                       const ls__finding *f)
{
    json_t *out = json_pack(
        "{s:s, s:I, s:I, s:I, s:{s:b, s:b}, s:[o, o]}", "found", found_names[f->found], "step",
        (json_int_t)f->step, "epoch", (json_int_t)f->epoch + 1, "step_in_epoch",
        (json_int_t)f->step_in_epoch + 1, "reproduced", "a", sides[0].diverged < 0, "b",
        sides[1].diverged < 0, "from", ls__json_text(runs[0].run.ctx, runs[0].restored_from),
        ls__json_text(runs[1].run.ctx, runs[1].restored_from));
    if (f->found == LS__FOUND_LR)
        json_object_set_new(out, "learning_rates", json_pack("[f, f]", f->lrs[0], f->lrs[1]));
    if (f->found == LS__FOUND_BATCH) json_object_set_new(out, "batch", place_json(runs, f));
    if (f->found == LS__FOUND_OP || f->found == LS__FOUND_STATE || f->found == LS__FOUND_PROGRAM)
        json_object_set_new(out, "ops",
                            json_pack("[o, o]", op_json(&f->ops[0]), op_json(&f->ops[1])));
    if (f->element >= 0) json_object_set_new(out, "element", element_json(f));
    return out;
}

/* ---- As text ---- */

static void print_op(const char *which, const json_t *op)
{
    if (json_is_null(op)) {
        print_text(stdout, "  %s: no further op\n", which);
        return;
    }
    const char *kernel = ls__json_get_string(op, "kernel");
    print_text(stdout, "  %s: op %lld, %s%s of '%s'%s%s\n", which,
               ls__json_get_integer(op, "number"), ls__json_get_string(op, "kind"),
               json_is_true(json_object_get(op, "backward")) ? ", backward" : "",
               ls__json_get_string(op, "name"), *kernel ? ", kernel " : "", kernel);
}

static void print_element(const json_t *element)
{
    const char *parameter = ls__json_get_string(element, "parameter");
    const json_t *values = json_object_get(element, "values");
    const char *type = ls__json_get_string(element, "type");
    const long long ulps = ls__json_get_integer(element, "ulps");
    const bool is_integer = type[0] == 'U' || type[0] == 'I'; /* without units in the last place */
    char *index = json_dumps(json_object_get(element, "index"), 0);
    print_text(
        stdout, "  %s%s%s%s %s %s, element %s: %s in A, %s in B",
        ls__json_get_string(element, "role"), parameter ? " ('" : "", parameter ? parameter : "",
        parameter ? "')" : "", type, ls__json_get_string(element, "shape"), index ? index : "",
        json_string_value(json_array_get(values, 0)), json_string_value(json_array_get(values, 1)));
    print_text(stdout, ", %lld%s%s apart; %lld of %lld elements differ\n", ulps,
               is_integer ? "" : " ulp", is_integer ? "" : plural(ulps),
               ls__json_get_integer(element, "different_elements"),
               ls__json_get_integer(element, "elements"));
    free(index);
}

static void print_batch(const json_t *batch)
{
    const json_t *images = json_object_get(batch, "images");
    if (ls__json_get_integer(batch, "place") < 0) {
        print_text(stdout, "  their batches have different sizes\n");
        return;
    }
    print_text(stdout, "  the first image that differs is number %lld of the batch\n",
               ls__json_get_integer(batch, "place"));
    for (size_t i = 0; i < 2; i++) {
        const json_t *image = json_array_get(images, i);
        const char *file = ls__json_get_string(image, "file");
        const long long label = ls__json_get_integer(image, "label");
        print_text(stdout, "  %c: sample %lld, ", "AB"[i], ls__json_get_integer(image, "sample"));
        if (label >= 0) print_text(stdout, "label %lld, ", label);
        print_text(stdout, "%s\n", file ? file : "");
    }
}

/* Where two replays agree, they match at most one of two run logs that differ. */
static void print_agreement(const json_t *replay)
{
    const json_t *reproduced = json_object_get(replay, "reproduced");
    const bool a = json_is_true(json_object_get(reproduced, "a"));
    const bool b = json_is_true(json_object_get(reproduced, "b"));
    static const char *const causes[] = { "neither run log: both runs were", "A's run log: B was",
                                          "B's run log: A was" };
    print_text(stdout,
               "replay: both runs now give the same result, which matches %s changed by a hardware "
               "fault, or by something outside the identity\n",
               causes[a   ? 1
                      : b ? 2
                          : 0]);
}

void compare_print(const json_t *replay)
{
    static const char *const lines[] = {
        [LS__FOUND_EARLIER] = "the optimizers' states differ before this step",
        [LS__FOUND_LR] = "the learning rates differ",
        [LS__FOUND_BATCH] = "the batches differ",
        [LS__FOUND_STATE] = "an input of the step (a weight or buffer) already differs",
        [LS__FOUND_OP] = "the first op whose output differs although its inputs are equal",
        [LS__FOUND_PROGRAM] = "the runs execute different ops"
    };
    const char *found = ls__json_get_string(replay, "found");
    int kind = 0;
    while (strcmp(found_names[kind], found) != 0) kind++;
    if (kind == LS__FOUND_NOTHING) {
        print_agreement(replay);
        return;
    }
    print_text(stdout, "replay: step %lld (epoch %lld, step %lld): %s\n",
               ls__json_get_integer(replay, "step"), ls__json_get_integer(replay, "epoch"),
               ls__json_get_integer(replay, "step_in_epoch"), lines[kind]);
    const json_t *ops = json_object_get(replay, "ops"),
                 *rates = json_object_get(replay, "learning_rates");
    if (ops) print_op("A", json_array_get(ops, 0));
    if (ops) print_op("B", json_array_get(ops, 1));
    if (rates)
        print_text(stdout, "  %.17g in A, %.17g in B\n",
                   json_number_value(json_array_get(rates, 0)),
                   json_number_value(json_array_get(rates, 1)));
    if (json_object_get(replay, "batch")) print_batch(json_object_get(replay, "batch"));
    if (json_object_get(replay, "element")) print_element(json_object_get(replay, "element"));
}
