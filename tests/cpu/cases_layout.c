/* REORDER, PAD_CHANNELS and NORMALIZE: copies, and one correctly rounded value per byte: exact. */
#include "op_case.h"

static const struct {
    int64_t n, h, w, c, from, to;
} reorders[] = {
    { 2, 3, 5, 8, 8, 1 },     { 2, 3, 5, 8, 1, 8 },     { 1, 7, 7, 32, 32, 16 },
    { 1, 7, 7, 32, 16, 32 },  { 3, 4, 4, 32, 8, 32 },   { 3, 4, 4, 32, 32, 8 },
    { 2, 5, 3, 48, 16, 8 },   { 2, 5, 3, 48, 8, 16 },   { 2, 9, 7, 16, 16, 1 },
    { 2, 9, 7, 16, 1, 16 },   { 2, 4, 5, 64, 16, 1 },   { 2, 4, 5, 64, 1, 16 },
    { 3, 6, 5, 3, 3, 1 },     { 3, 6, 5, 3, 1, 3 },     { 2, 2, 2, 12, 12, 4 },
    { 2, 2, 2, 12, 4, 6 },    { 1, 1, 1, 1, 1, 1 },     { 4, 1, 1, 512, 512, 16 },
    { 8, 32, 32, 64, 64, 8 }, { 8, 32, 32, 64, 8, 64 }, { 8, 32, 32, 64, 64, 1 },
    { 8, 32, 32, 64, 1, 64 }, { 2, 3, 3, 24, 24, 24 },
};

/* y's channels, and its block */
static const struct {
    int64_t n, h, w, c, channels, to;
} normalizations[] = {
    { 2, 5, 7, 3, 3, 3 }, { 2, 5, 7, 3, 3, 1 },    { 3, 4, 4, 1, 1, 1 },    { 1, 3, 3, 4, 4, 4 },
    { 1, 3, 3, 4, 4, 1 }, { 1, 9, 1, 2, 2, 2 },    { 16, 64, 48, 3, 3, 3 }, { 16, 64, 48, 3, 3, 1 },
    { 2, 5, 7, 3, 8, 8 }, { 2, 5, 7, 3, 8, 1 },    { 2, 5, 7, 1, 8, 8 },    { 2, 5, 7, 1, 8, 1 },
    { 1, 3, 5, 3, 8, 2 }, { 1, 3, 5, 3, 8, 4 },    { 1, 3, 5, 3, 16, 16 },  { 1, 3, 5, 4, 24, 8 },
    { 1, 3, 5, 2, 5, 5 }, { 1, 3, 5, 1, 3, 3 },    { 1, 3, 5, 4, 6, 3 },    { 1, 3, 5, 3, 6, 3 },
    { 2, 3, 3, 4, 8, 8 }, { 16, 64, 48, 3, 8, 8 }, { 16, 64, 48, 1, 8, 8 },
};

static const struct {
    int64_t n, h, w, from, to, from_block, to_block;
} paddings[] = {
    { 2, 3, 5, 3, 7, 0, 0 },    { 2, 4, 4, 16, 32, 16, 16 }, { 2, 4, 4, 16, 32, 0, 0 },
    { 1, 5, 3, 8, 24, 8, 8 },   { 2, 3, 3, 6, 8, 1, 1 },     { 2, 3, 3, 16, 32, 0, 8 },
    { 2, 3, 3, 16, 32, 8, 16 }, { 1, 3, 3, 16, 16, 0, 0 },   { 16, 16, 16, 32, 64, 8, 8 },
};

static void add_paddings(case_list *list)
{
    for (size_t i = 0; i < sizeof paddings / sizeof paddings[0]; i++) {
        const int64_t n = paddings[i].n, h = paddings[i].h, w = paddings[i].w;
        const ls__operand x = activation(n, h, w, paddings[i].from, paddings[i].from_block);
        const ls__operand y = activation(n, h, w, paddings[i].to, paddings[i].to_block);
        op_case *c = add_case(list, LS__OP_PAD_CHANNELS, 2, (ls__operand[]){ x, y },
                              "to %d block %d", (int)paddings[i].to, (int)y.block);
        if (n * h * w * paddings[i].to < 2000) {
            c->gradient_step = 1;
            c->gradient_tolerance = 1e-5;
        }
        add_case(list, LS__OP_PAD_CHANNELS_BACKWARD, 2, (ls__operand[]){ y, x }, "to %d block %d",
                 (int)paddings[i].from, (int)x.block);
    }
}

void add_layout_cases(case_list *list)
{
    for (size_t i = 0; i < sizeof reorders / sizeof reorders[0]; i++) {
        const int64_t n = reorders[i].n, h = reorders[i].h, w = reorders[i].w, c = reorders[i].c;
        const ls__operand operands[] = { activation(n, h, w, c, reorders[i].from),
                                         activation(n, h, w, c, reorders[i].to) };
        add_case(list, LS__OP_REORDER, 2, operands, "to block %d", (int)reorders[i].to);
    }
    for (size_t i = 0; i < sizeof normalizations / sizeof normalizations[0]; i++) {
        const int64_t n = normalizations[i].n, h = normalizations[i].h, w = normalizations[i].w;
        const int64_t channels = normalizations[i].channels, block = normalizations[i].to;
        const ls__operand operands[] = { dense(LS_U8, LS_SHAPE(n, h, w, normalizations[i].c)),
                                         activation(n, h, w, channels, block) };
        op_case *added = add_case(list, LS__OP_NORMALIZE, 2, operands, "to %d block %d",
                                  (int)channels, (int)block);
        for (int k = 0; k < 4; k++) {
            added->op.u.normalize.mean[k] = 0.4f + 0.03f * (float)k;
            added->op.u.normalize.std[k] = 0.2f + 0.01f * (float)k;
        }
    }
    add_paddings(list);
}
