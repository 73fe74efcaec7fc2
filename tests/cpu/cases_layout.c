/* REORDER, PAD_CHANNELS, CONCAT and NORMALIZE: copies, and one correctly rounded value per byte:
 * exact. */
#include "op_case.h"

static const struct {
    struct {
        int64_t n, h, w, c;
    } x;
    int64_t from_block, to_block;
} reorders[] = {
    { .x = { 2, 3, 5, 8 }, .from_block = 8, .to_block = 1 },
    { .x = { 2, 3, 5, 8 }, .from_block = 1, .to_block = 8 },
    { .x = { 1, 7, 7, 32 }, .from_block = 32, .to_block = 16 },
    { .x = { 1, 7, 7, 32 }, .from_block = 16, .to_block = 32 },
    { .x = { 3, 4, 4, 32 }, .from_block = 8, .to_block = 32 },
    { .x = { 3, 4, 4, 32 }, .from_block = 32, .to_block = 8 },
    { .x = { 2, 5, 3, 48 }, .from_block = 16, .to_block = 8 },
    { .x = { 2, 5, 3, 48 }, .from_block = 8, .to_block = 16 },
    { .x = { 2, 9, 7, 16 }, .from_block = 16, .to_block = 1 },
    { .x = { 2, 9, 7, 16 }, .from_block = 1, .to_block = 16 },
    { .x = { 2, 4, 5, 64 }, .from_block = 16, .to_block = 1 },
    { .x = { 2, 4, 5, 64 }, .from_block = 1, .to_block = 16 },
    { .x = { 3, 6, 5, 3 }, .from_block = 3, .to_block = 1 },
    { .x = { 3, 6, 5, 3 }, .from_block = 1, .to_block = 3 },
    { .x = { 2, 2, 2, 12 }, .from_block = 12, .to_block = 4 },
    { .x = { 2, 2, 2, 12 }, .from_block = 4, .to_block = 6 },
    { .x = { 1, 1, 1, 1 }, .from_block = 1, .to_block = 1 },
    { .x = { 4, 1, 1, 512 }, .from_block = 512, .to_block = 16 },
    { .x = { 8, 32, 32, 64 }, .from_block = 64, .to_block = 8 },
    { .x = { 8, 32, 32, 64 }, .from_block = 8, .to_block = 64 },
    { .x = { 8, 32, 32, 64 }, .from_block = 64, .to_block = 1 },
    { .x = { 8, 32, 32, 64 }, .from_block = 1, .to_block = 64 },
    { .x = { 2, 3, 3, 24 }, .from_block = 24, .to_block = 24 },
};

static const struct {
    struct {
        int64_t n, h, w, c;
    } x;
    int64_t y_channels, y_block;
} normalizations[] = {
    { .x = { 2, 5, 7, 3 }, .y_channels = 3, .y_block = 3 },
    { .x = { 2, 5, 7, 3 }, .y_channels = 3, .y_block = 1 },
    { .x = { 3, 4, 4, 1 }, .y_channels = 1, .y_block = 1 },
    { .x = { 1, 3, 3, 4 }, .y_channels = 4, .y_block = 4 },
    { .x = { 1, 3, 3, 4 }, .y_channels = 4, .y_block = 1 },
    { .x = { 1, 9, 1, 2 }, .y_channels = 2, .y_block = 2 },
    { .x = { 16, 64, 48, 3 }, .y_channels = 3, .y_block = 3 },
    { .x = { 16, 64, 48, 3 }, .y_channels = 3, .y_block = 1 },
    { .x = { 2, 5, 7, 3 }, .y_channels = 8, .y_block = 8 },
    { .x = { 2, 5, 7, 3 }, .y_channels = 8, .y_block = 1 },
    { .x = { 2, 5, 7, 1 }, .y_channels = 8, .y_block = 8 },
    { .x = { 2, 5, 7, 1 }, .y_channels = 8, .y_block = 1 },
    { .x = { 1, 3, 5, 3 }, .y_channels = 8, .y_block = 2 },
    { .x = { 1, 3, 5, 3 }, .y_channels = 8, .y_block = 4 },
    { .x = { 1, 3, 5, 3 }, .y_channels = 16, .y_block = 16 },
    { .x = { 1, 3, 5, 4 }, .y_channels = 24, .y_block = 8 },
    { .x = { 1, 3, 5, 2 }, .y_channels = 5, .y_block = 5 },
    { .x = { 1, 3, 5, 1 }, .y_channels = 3, .y_block = 3 },
    { .x = { 1, 3, 5, 4 }, .y_channels = 6, .y_block = 3 },
    { .x = { 1, 3, 5, 3 }, .y_channels = 6, .y_block = 3 },
    { .x = { 2, 3, 3, 4 }, .y_channels = 8, .y_block = 8 },
    { .x = { 16, 64, 48, 3 }, .y_channels = 8, .y_block = 8 },
    { .x = { 16, 64, 48, 1 }, .y_channels = 8, .y_block = 8 },
};

static const struct {
    struct {
        int64_t n, h, w, c;
    } x;
    int64_t y_channels, x_block, y_block;
} paddings[] = {
    { .x = { 2, 3, 5, 3 }, .y_channels = 7 },
    { .x = { 2, 4, 4, 16 }, .y_channels = 32, .x_block = 16, .y_block = 16 },
    { .x = { 2, 4, 4, 16 }, .y_channels = 32 },
    { .x = { 1, 5, 3, 8 }, .y_channels = 24, .x_block = 8, .y_block = 8 },
    { .x = { 2, 3, 3, 6 }, .y_channels = 8, .x_block = 1, .y_block = 1 },
    { .x = { 2, 3, 3, 16 }, .y_channels = 32, .y_block = 8 },
    { .x = { 2, 3, 3, 16 }, .y_channels = 32, .x_block = 8, .y_block = 16 },
    { .x = { 1, 3, 3, 16 }, .y_channels = 16 },
    { .x = { 16, 16, 16, 32 }, .y_channels = 64, .x_block = 8, .y_block = 8 },
};

/* x's channels, the first of y that they become, y's channels; h 0: matrices */
static const struct {
    int64_t n, h, w, channels, offset, all, from_block, to_block;
} concatenations[] = {
    { 2, 3, 5, 3, 0, 7, 0, 0 },      { 2, 3, 5, 3, 4, 7, 0, 0 },
    { 2, 3, 5, 3, 2, 7, 0, 0 },      { 1, 4, 3, 1, 0, 2, 0, 0 },
    { 1, 4, 3, 1, 1, 2, 0, 0 },      { 2, 3, 3, 5, 0, 5, 0, 0 },
    { 2, 4, 4, 8, 16, 32, 0, 0 },    { 2, 4, 4, 16, 16, 32, 16, 16 },
    { 2, 4, 4, 16, 0, 32, 8, 16 },   { 1, 5, 3, 8, 8, 24, 8, 8 },
    { 2, 3, 3, 16, 8, 32, 0, 8 },    { 2, 3, 3, 16, 12, 32, 8, 16 },
    { 2, 3, 3, 6, 2, 9, 1, 3 },      { 2, 3, 3, 24, 8, 40, 8, 0 },
    { 13, 0, 0, 3, 4, 11, 0, 0 },    { 5, 0, 0, 8, 8, 16, 0, 0 },
    { 1, 0, 0, 1, 0, 1, 0, 0 },      { 16, 16, 16, 32, 64, 128, 8, 8 },
    { 16, 16, 16, 64, 3, 67, 0, 0 },
};

/* rest: 0 absent, 1 of its own, 2 in y */
static void add_concatenations(case_list *list)
{
    for (size_t i = 0; i < sizeof concatenations / sizeof concatenations[0]; i++) {
        const int64_t n = concatenations[i].n, h = concatenations[i].h, w = concatenations[i].w;
        const int64_t channels = concatenations[i].channels, all = concatenations[i].all;
        const int64_t offset = concatenations[i].offset;
        const ls__operand x = h ? activation(n, h, w, channels, concatenations[i].from_block)
                                : dense(LS_F32, LS_SHAPE(n, channels));
        const ls__operand y = h ? activation(n, h, w, all, concatenations[i].to_block)
                                : dense(LS_F32, LS_SHAPE(n, all));
        for (int rest = 0; rest < 3; rest++) {
            static const char *const texts[] = { "alone", "beside others", "in others" };
            op_case *c = add_case(
                list, LS__OP_CONCAT, 3, (ls__operand[]){ x, rest ? y : absent(), y },
                "at %d of %d block %d %s", (int)offset, (int)all, (int)y.block, texts[rest]);
            c->op.u.concat.offset = offset;
            c->shares[2] = rest == 2 ? 2 : 0;
            if (rest == 2 || n * all * (h ? h * w : 1) >= 2000) continue;
            c->gradient_step = 1;
            c->gradient_tolerance = 1e-5;
        }
        op_case *c = add_case(list, LS__OP_CONCAT_BACKWARD, 2, (ls__operand[]){ y, x },
                              "from %d of %d block %d", (int)offset, (int)channels, (int)x.block);
        c->op.u.concat.offset = offset;
    }
}

static void add_paddings(case_list *list)
{
    for (size_t i = 0; i < sizeof paddings / sizeof paddings[0]; i++) {
        const int64_t n = paddings[i].x.n, h = paddings[i].x.h, w = paddings[i].x.w;
        const ls__operand x = activation(n, h, w, paddings[i].x.c, paddings[i].x_block);
        const ls__operand y = activation(n, h, w, paddings[i].y_channels, paddings[i].y_block);
        op_case *c = add_case(list, LS__OP_PAD_CHANNELS, 2, (ls__operand[]){ x, y },
                              "to %d block %d", (int)paddings[i].y_channels, (int)y.block);
        if (n * h * w * paddings[i].y_channels < 2000) {
            c->gradient_step = 1;
            c->gradient_tolerance = 1e-5;
        }
        add_case(list, LS__OP_PAD_CHANNELS_BACKWARD, 2, (ls__operand[]){ y, x }, "to %d block %d",
                 (int)paddings[i].x.c, (int)x.block);
    }
}

void add_layout_cases(case_list *list)
{
    for (size_t i = 0; i < sizeof reorders / sizeof reorders[0]; i++) {
        const int64_t n = reorders[i].x.n, h = reorders[i].x.h, w = reorders[i].x.w;
        const int64_t c = reorders[i].x.c;
        const ls__operand operands[] = { activation(n, h, w, c, reorders[i].from_block),
                                         activation(n, h, w, c, reorders[i].to_block) };
        add_case(list, LS__OP_REORDER, 2, operands, "to block %d", (int)reorders[i].to_block);
    }
    for (size_t i = 0; i < sizeof normalizations / sizeof normalizations[0]; i++) {
        const int64_t n = normalizations[i].x.n, h = normalizations[i].x.h,
                      w = normalizations[i].x.w;
        const int64_t channels = normalizations[i].y_channels, block = normalizations[i].y_block;
        const ls__operand operands[] = { dense(LS_U8, LS_SHAPE(n, h, w, normalizations[i].x.c)),
                                         activation(n, h, w, channels, block) };
        op_case *added = add_case(list, LS__OP_NORMALIZE, 2, operands, "to %d block %d",
                                  (int)channels, (int)block);
        for (int k = 0; k < 4; k++) {
            added->op.u.normalize.mean[k] = 0.4f + 0.03f * (float)k;
            added->op.u.normalize.std[k] = 0.2f + 0.01f * (float)k;
        }
    }
    add_paddings(list);
    add_concatenations(list);
}
