/* ops.c: the names of ops and of their operands, from the list in backend.h. */
#include "tensor/backend.h"

const char *ls__op_name(ls__op_kind kind)
{
    static const char *const names[LS__N_OPS] = {
#define OP_NAME(name, text, operands) text,
        LS__OP_LIST(OP_NAME)
#undef OP_NAME
    };
    return (unsigned)kind < LS__N_OPS ? names[kind] : "no op";
}

const char *ls__op_operands(ls__op_kind kind)
{
    static const char *const operand_names[LS__N_OPS] = {
#define OP_OPERANDS(name, text, operands) operands,
        LS__OP_LIST(OP_OPERANDS)
#undef OP_OPERANDS
    };
    return (unsigned)kind < LS__N_OPS ? operand_names[kind] : "";
}
