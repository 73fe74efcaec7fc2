/* overlap.c: overlaps weight gradients with the rest of the backward pass. No instruction of it
 * reads them, so they can run in LS__STREAM_SIDE, concurrent with the gradients of activations in
 * COMPUTE: memory-bound batch norms then overlap with compute-bound weight gradients.
 *
 * Before such an instruction SIDE waits for all work queued in COMPUTE. COMPUTE waits for SIDE
 * before the next such instruction, unless that follows directly, and after the last instruction,
 * before gradients are read. plan_memory.c keeps the instruction's memory until COMPUTE has waited.
 * The order of sums is the same, so results do not change.
 *
 * Overlap is off unless an algorithm cache, a checkpoint or timing (autotune_overlap.c) selects it.
 * It is not part of a run's identity. */
#include "base/error.h"
#include "base/text.h"
#include "nn/compile/compile.h"
#include "nn/select/selector.h"
#include <stdio.h>
#include <string.h>

/* ---- The instructions of the second stream ---- */

static bool is_side(const ls__program *p, const ls__instruction *in)
{
    if (in->custom || !ls__op_traits_of(in->op.kind)->weight_gradient) return false;
    for (int j = in->n_inputs; j < in->op.n_operands; j++)
        if (in->operands[j] >= 0 && p->values[in->operands[j]].place != LS__PLACE_GRADIENTS)
            return false;
    return true;
}

bool ls__can_overlap(const ls__program *p)
{
    for (int i = p->n_forward; i < p->n_instructions; i++)
        if (is_side(p, &p->instructions[i])) return p->ctx->device->backend->launch_in != NULL;
    return false;
}

void ls__mark_overlap(ls__program *p)
{
    ls__instruction *first = NULL;
    int joined = p->n_instructions;
    for (int i = p->n_instructions - 1; i >= p->n_forward && p->overlaps; i--) {
        ls__instruction *in = &p->instructions[i];
        if (!is_side(p, in)) continue;
        in->side = true;
        in->joined = joined;
        in->joins = i == p->n_forward || !is_side(p, in - 1);
        if (in->joins) joined = i;
        first = in;
    }
    if (first) first->joins = false;
    p->joins_at_end = first != NULL;
}

/* ---- The selection ---- */

/* "weight_gradients BF16 U8:256x224x224x3 I32:256, 25557032 parameters": the activations' type, the
 * inputs, and the parameters, which differ between models with equal inputs. */
static void make_text(const ls__program *p, char out[LS__OP_TEXT_SIZE])
{
    ls__text text = { out, LS__OP_TEXT_SIZE, 0 };
    ls__text_put(&text, "%s %s", LS__WEIGHT_GRADIENTS, ls_dtype_name(p->env->activations));
    for (int i = 0; i < p->graph->inputs.n; i++) {
        const ls_spec *spec = &p->input_specs[i];
        ls__text_put(&text, " %s:", ls_dtype_name(spec->dtype));
        for (int d = 0; d < spec->shape.n_dims; d++)
            ls__text_put(&text, d ? "x%lld" : "%lld", (long long)spec->shape.dims[d]);
    }
    ls__text_put(&text, ", %lld parameters", (long long)ls__parameter_elements(p->graph));
}

const ls__selection *ls__find_overlap_selection(const ls__program *p)
{
    char text[LS__OP_TEXT_SIZE];
    make_text(p, text);
    return ls__selector_find(p->env->selector, text);
}

ls_status ls__select_overlap(const ls__program *p, bool taken, const char *reason)
{
    char text[LS__OP_TEXT_SIZE];
    ls__selection selection = { .op = text };
    make_text(p, text);
    snprintf(selection.kernel, sizeof selection.kernel, "%s", taken ? LS__SIDE : LS__MAIN);
    snprintf(selection.reason, sizeof selection.reason, "%s", reason);
    return ls__autotune_put(p->ctx, &selection, false);
}

ls_status ls__note_overlap(const ls__program *p)
{
    const ls__selection *selected = ls__find_overlap_selection(p);
    if (!selected || !ls__can_overlap(p)) return LS_OK;
    return ls__selector_note(p->env->selector, "net", selected);
}
