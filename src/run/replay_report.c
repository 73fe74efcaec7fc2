/* replay_report.c: see replay_side.h. */
#include "run/replay_side.h"

#include "io/json.h"
#include <stdio.h>

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

static json_t *place_json(const ls__replay_side runs[2], const ls__finding *f)
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

json_t *ls__replay_report(const ls__replay_side runs[2], const ls__compare_side sides[2],
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
