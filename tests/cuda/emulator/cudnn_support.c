/* cudnn_support.c: which graphs the emulated cuDNN has engines for: those of src/cuda/cudnn, with
 * the types that cuDNN 9's engines for them take on sm_90. */
#include "cudnn_support.h"
#include <string.h>

typedef struct pattern {
    const char *letters;
    bool fused; /* with statistics or norms: 16-bit, rows of 16 bytes */
} pattern;
static const pattern patterns[] = { { "F", false },    { "D", false },   { "W", false },
                                    { "F+", false },   { "N", false },   { "FG", true },
                                    { "*+RFG", true }, { "*+RW", true }, { "D-**+rB", true } };

static const pattern *pattern_of(const cudnn_program *p)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(patterns[i].letters, p->pattern) == 0) return &patterns[i];
    return NULL;
}

static const cudnn_step *convolution_of(const cudnn_program *p)
{
    for (int i = 0; i < p->n_steps; i++)
        if (strchr("FDW", p->steps[i].letter)) return &p->steps[i];
    return NULL;
}

cudnnDataType_t cudnn_factor_type(const cudnn_program *p)
{
    const cudnn_step *c = convolution_of(p);
    return c ? p->tensors[c->tensors[CUDNN_ROLE_W]].type : CUDNN_DATA_FLOAT;
}

/* Batch norm finalize: all f32 but the scale and the bias to apply, which may be f16. */
static bool finalize_types_fit(const cudnn_program *p)
{
    enum { COUNT = 6, EQ_SCALE = 11, EQ_BIAS = 12 };
    const cudnn_step *s = &p->steps[0];
    const cudnnDataType_t applied = p->tensors[s->tensors[EQ_SCALE]].type;
    if (applied != p->tensors[s->tensors[EQ_BIAS]].type ||
        (applied != CUDNN_DATA_FLOAT && applied != CUDNN_DATA_HALF))
        return false;
    for (int r = 0; r < CUDNN_MAX_ROLES; r++)
        if (r != COUNT && r != EQ_SCALE && r != EQ_BIAS &&
            p->tensors[s->tensors[r]].type != CUDNN_DATA_FLOAT)
            return false;
    return true;
}

/* Is the tensor a vector of a norm, which is f32, at this role? Those that are applied before a
 * convolution, and biases, are of the factors' type. */
static bool is_norms_vector(const cudnn_program *p, const cudnn_step *s, int role)
{
    if (s->letter == 'G') return role > 0;
    if (s->letter == 'B') return role > 1;
    return s->letter == 'P' && role == CUDNN_ROLE_B && p->pattern[0] == 'D';
}

/* What lies in memory is of the factors' type, which a dw of 16-bit factors is, too; virtual
 * tensors may be f32. */
static bool types_fit(const cudnn_program *p)
{
    if (p->pattern[0] == 'N') return finalize_types_fit(p);
    const cudnnDataType_t factors = cudnn_factor_type(p);
    if (factors != CUDNN_DATA_FLOAT && cudnn_type_bytes(factors) != 2) return false;
    for (int i = 0; i < p->n_steps; i++)
        for (int r = 0; r < CUDNN_MAX_ROLES; r++) {
            if (p->steps[i].tensors[r] < 0) continue;
            const cudnn_tensor *t = &p->tensors[p->steps[i].tensors[r]];
            const bool norms = is_norms_vector(p, &p->steps[i], r) && !t->is_virtual;
            if (norms ? t->type != CUDNN_DATA_FLOAT
                      : t->type != factors && !(t->is_virtual && t->type == CUDNN_DATA_FLOAT))
                return false;
        }
    return true;
}

/* What one step writes and another reads is virtual; only statistics are of what is written, too.
 */
static bool virtual_tensors_fit(const cudnn_program *p)
{
    for (int i = 0; i + 1 < p->n_steps; i++) {
        const char letter = p->steps[i].letter, next = p->steps[i + 1].letter;
        const int result = letter == 'D' ? CUDNN_ROLE_X : CUDNN_ROLE_Y;
        const bool kept = next == 'G' || next == 'B';
        if (p->tensors[p->steps[i].tensors[result]].is_virtual == kept) return false;
    }
    return true;
}

static bool rows_fit(const cudnn_program *p)
{
    enum { ROW = 8 }; /* 16-bit elements */
    const cudnn_step *c = convolution_of(p);
    for (int r = CUDNN_ROLE_X; r <= CUDNN_ROLE_Y; r++) {
        const cudnn_tensor *t = &p->tensors[c->tensors[r]];
        if (t->dims[1] % ROW != 0 || !cudnn_is_channels_last(t)) return false;
    }
    return true;
}

cudnnStatus_t cudnn_check_support(const cudnn_program *p, bool compiled)
{
    enum { ALIGNMENT = 16 };
    const pattern *found = pattern_of(p);
    if (!found || !virtual_tensors_fit(p))
        return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "no engine for %s", p->pattern);
    if (!types_fit(p)) return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "%s", p->pattern);
    for (int i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].alignment < ALIGNMENT)
            return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "tensors aligned to %d",
                              ALIGNMENT);
    if (!found->fused) return CUDNN_STATUS_SUCCESS;
    /* Of the fused graphs one has a bf16 form, which is compiled. */
    const cudnnDataType_t factors = cudnn_factor_type(p);
    const bool statistics = strcmp(p->pattern, "FG") == 0;
    if (factors != CUDNN_DATA_HALF && !(factors == CUDNN_DATA_BFLOAT16 && statistics && compiled))
        return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "%s of type %d", p->pattern,
                          (int)factors);
    return rows_fit(p) ? CUDNN_STATUS_SUCCESS
                       : cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "rows of 16 bytes");
}
