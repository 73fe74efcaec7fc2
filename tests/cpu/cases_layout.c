/* PAD_CHANNELS, CONCAT and NORMALIZE: copies, and one correctly rounded value per byte:
 * exact. */
#include "op_case.h"

static const struct {
    int64_t n, h, w, c, y_channels;
} normalizations[] = {
    { 2, 5, 7, 3, 3 },
    { 3, 4, 4, 1, 1 },
    { 1, 3, 3, 4, 4 },
    { 1, 9, 1, 2, 2 },
    { 16, 64, 48, 3, 3 },
    { 2, 5, 7, 3, 8 },
    { 2, 5, 7, 1, 8 },
    { 1, 3, 5, 3, 16 },
    { 1, 3, 5, 2, 5 },
    { 1, 3, 5, 4, 24 },
    { 1, 3, 5, 4, 6 },
    { 1, 3, 5, 3, 6 },
    { 1, 3, 5, 1, 3 },
    { 2, 3, 3, 4, 8 },
    { 16, 64, 48, 3, 8 },
    { 16, 64, 48, 1, 8 },
}, paddings[] = {
    { 2, 3, 5, 3, 7 },
    { 2, 4, 4, 16, 32 },
    { 1, 3, 3, 16, 16 },
    { 1, 5, 3, 8, 24 },
    { 2, 3, 3, 6, 8 },
    { 16, 16, 16, 32, 64 },
};

/* x's channels, the first of y that they become, y's channels; h 0: matrices */
static const struct {
    int64_t n, h, w, channels, offset, all;
} concatenations[] = {
    { 2, 3, 5, 3, 0, 7 },    { 2, 3, 5, 3, 4, 7 },      { 2, 3, 5, 3, 2, 7 },
    { 1, 4, 3, 1, 0, 2 },    { 1, 4, 3, 1, 1, 2 },      { 2, 3, 3, 5, 0, 5 },
    { 2, 4, 4, 8, 16, 32 },  { 13, 0, 0, 3, 4, 11 },    { 5, 0, 0, 8, 8, 16 },
    { 1, 0, 0, 1, 0, 1 },    { 16, 16, 16, 64, 3, 67 }, { 2, 4, 4, 16, 0, 32 },
    { 2, 4, 4, 16, 16, 32 }, { 1, 5, 3, 8, 8, 24 },     { 2, 3, 3, 16, 12, 32 },
    { 2, 3, 3, 6, 2, 9 },    { 2, 3, 3, 24, 8, 40 },    { 16, 16, 16, 32, 64, 128 },
};

/* rest: 0 absent, 1 of its own, 2 in y */
static void add_concatenations(case_list *list)
{
    for (size_t i = 0; i < sizeof concatenations / sizeof concatenations[0]; i++) {
        const int64_t n = concatenations[i].n, h = concatenations[i].h, w = concatenations[i].w;
        const int64_t channels = concatenations[i].channels, all = concatenations[i].all;
        const int64_t offset = concatenations[i].offset;
        const ls__operand x =
            h ? activation(n, h, w, channels) : dense(LS_F32, LS_SHAPE(n, channels));
        const ls__operand y = h ? activation(n, h, w, all) : dense(LS_F32, LS_SHAPE(n, all));
        for (int rest = 0; rest < 3; rest++) {
            static const char *const texts[] = { "alone", "beside others", "in others" };
            op_case *c =
                add_case(list, LS__OP_CONCAT, 3, (ls__operand[]){ x, rest ? y : absent(), y },
                         "at %d of %d %s", (int)offset, (int)all, texts[rest]);
            c->op.u.concat.offset = offset;
            c->shares[2] = rest == 2 ? 2 : 0;
            if (rest == 2 || n * all * (h ? h * w : 1) >= 2000) continue;
            c->gradient_step = 1;
            c->gradient_tolerance = 1e-5;
        }
        op_case *c = add_case(list, LS__OP_CONCAT_BACKWARD, 2, (ls__operand[]){ y, x },
                              "from %d of %d", (int)offset, (int)channels);
        c->op.u.concat.offset = offset;
    }
}

static void add_paddings(case_list *list)
{
    for (size_t i = 0; i < sizeof paddings / sizeof paddings[0]; i++) {
        const int64_t n = paddings[i].n, h = paddings[i].h, w = paddings[i].w;
        const ls__operand x = activation(n, h, w, paddings[i].c);
        const ls__operand y = activation(n, h, w, paddings[i].y_channels);
        op_case *c = add_case(list, LS__OP_PAD_CHANNELS, 2, (ls__operand[]){ x, y }, "to %d",
                              (int)paddings[i].y_channels);
        if (n * h * w * paddings[i].y_channels < 2000) {
            c->gradient_step = 1;
            c->gradient_tolerance = 1e-5;
        }
        add_case(list, LS__OP_PAD_CHANNELS_BACKWARD, 2, (ls__operand[]){ y, x }, "to %d",
                 (int)paddings[i].c);
    }
}

void add_layout_cases(case_list *list)
{
    for (size_t i = 0; i < sizeof normalizations / sizeof normalizations[0]; i++) {
        const int64_t n = normalizations[i].n, h = normalizations[i].h, w = normalizations[i].w;
        const int64_t channels = normalizations[i].y_channels;
        const ls__operand operands[] = { dense(LS_U8, LS_SHAPE(n, h, w, normalizations[i].c)),
                                         activation(n, h, w, channels) };
        op_case *added = add_case(list, LS__OP_NORMALIZE, 2, operands, "to %d", (int)channels);
        for (int k = 0; k < 4; k++) {
            added->op.u.normalize.mean[k] = 0.4f + 0.03f * (float)k;
            added->op.u.normalize.std[k] = 0.2f + 0.01f * (float)k;
        }
    }
    add_paddings(list);
    add_concatenations(list);
}
