/* select_kernels.c: selects the kernel of each instruction; see select/selector.h. */
#include "nn/compile/compile.h"
#include "nn/select/autotune.h"
#include "nn/select/selector.h"

static ls_status select_kernel(ls__program *p, ls__instruction *in)
{
    char who[LS__INSTRUCTION_NAME_SIZE];
    ls__instruction_name(in, who);
    return ls__selector_open_kernel(p->env->selector, &in->op, who, &in->kernel, &in->why);
}

ls_status ls__select_kernels(ls__program *p)
{
    for (int i = 0; i < p->n_instructions; i++) ls__instruction_fill(p, &p->instructions[i]);
    if (p->timed) LS_TRY(ls__autotune(p, p->instructions, p->n_instructions));
    for (int i = 0; i < p->n_instructions; i++) {
        ls__instruction *in = &p->instructions[i];
        if (!in->custom && !ls__reorder_is_identity(p, in)) LS_TRY(select_kernel(p, in));
    }
    return LS_OK;
}
