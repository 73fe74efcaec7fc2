/* op_case.h: the table of op cases that drives the tests of kernels. One case is one op with its
 * operands; the checks are:
 *   values      every kernel against the reference kernel (test_op_values.c)
 *   bits        every kernel for 1, 2, 3, 16 threads and for each ISA (test_op_bits.c)
 *   gradients   the reference's backward ops against finite differences (test_op_gradients.c)
 * and a case needs no code of its own: contents follow from the operands' names in LS__OP_LIST. */
#ifndef LS_TEST_OP_CASE_H
#define LS_TEST_OP_CASE_H

#include "base/context.h"
#include "cpu/cpu.h"
#include <check.h>

/* A case of centered RMSprop with this epsilon has variances that are clamped at 0. */
#define RMSPROP_CLAMPED_EPSILON 0.25f

typedef struct op_case {
    char name[200];
    ls__op op;
    /* Largest |kernel - reference| over largest |reference|, per operand; what is allowed and why
     * stands beside each family's cases. 16-bit results may be one unit in the last place further
     * apart, since what rounds to them may lie on both sides of a tie. Integers must be equal. */
    double tolerance;
    /* Step of the finite difference; 0: the op has no gradient to check. Linear ops take 1: there
     * the difference is exact but for rounding. */
    double gradient_step;
    double gradient_tolerance; /* relative L2 error */
    ls__step step;
    /* 1 + the input whose memory this operand shares, 0 for memory of its own. */
    int shares[LS__MAX_OPERANDS];
} op_case;

typedef struct case_list {
    op_case *cases;
    int n, capacity;
} case_list;

/* One function per family, in files cases_*.c. */
void add_layout_cases(case_list *list);
void add_conv_cases(case_list *list);
void add_linear_cases(case_list *list);
void add_norm_cases(case_list *list);
void add_rows_cases(case_list *list);
void add_activation_cases(case_list *list);
void add_pool_cases(case_list *list);
void add_loss_cases(case_list *list);
void add_optimizer_cases(case_list *list);
void add_fused_cases(case_list *list);
void add_half_cases(case_list *list);

/* Whether dx may be made from the dadd that is stored, so from a dy1 + dy2 that is rounded once
 * more. */
bool rounds_between(const op_case *c);

/* The case with 16-bit operands wherever they may stand. */
op_case half_case(const op_case *from, ls_dtype dtype);

/* Convolutions, in either direction, not fused with a norm; and the same or linear layers. */
bool is_conv(ls__op_kind kind);
bool is_conv_or_linear(ls__op_kind kind);

/* Whether a kernel is neither oneDNN's nor the reference. */
bool is_own_kernel(const char *kernel);

/* All of them, in that order; then the small ones of them again with 16-bit operands. */
const case_list *all_cases(void);

/* A loop over all cases is CASE_TESTS tests, because contexts take longer to open than most cases
 * to run. Test i runs the cases first_case(i), first_case(i) + case_stride(), ... */
enum { CASE_TESTS = 16 };
int first_case(int test);
int case_stride(void);
/* Runs the loop test CASE_TESTS times. Returns the program's exit status. */
int run_cases(const char *name, const TTest *test);

/* Operands for the families' files: an image, a tensor of any rank, and none. */
ls__operand activation(int64_t n, int64_t h, int64_t w, int64_t c);
ls__operand dense(ls_dtype dtype, ls_shape shape);
ls__operand absent(void);
/* Begins a case named "<op> <shape of operand 0> <printf text>": n operands follow. */
op_case *add_case(case_list *list, ls__op_kind kind, int n_operands, const ls__operand *operands,
                  const char *format, ...) LS_PRINTF(5, 6);

/* ---- Running. ---- */

/* A context of so many threads whose own kernels use this ISA; -1 = the machine's best. */
ls_context *open_cpu(int threads, int isa);

/* One block per operand, NULL where absent, with guard bytes around it. Inputs are filled from the
 * case alone, outputs with NaN (all bits set). */
typedef struct op_buffers {
    unsigned char *blocks[LS__MAX_OPERANDS]; /* with guards */
    void *memory[LS__MAX_OPERANDS];
    size_t bytes[LS__MAX_OPERANDS];
    int n;
} op_buffers;
void fill_buffers(const op_case *c, op_buffers *b, bool share);
/* Copies the contents to memory of their own: `to` is empty, or an earlier copy, whose memory is
 * used again. */
void copy_buffers(const op_case *c, const op_buffers *from, op_buffers *to);
void free_buffers(op_buffers *b);
/* Fails the running test when a byte beside an operand was written. */
void check_guards(const op_case *c, const op_buffers *b);

/* Name of operand i (not terminated, "?" left out), NULL past the last; the operand of a name, or
 * -1. */
const char *operand_name(ls__op_kind kind, int i, size_t *length);
int find_operand(ls__op_kind kind, const char *name, size_t length);

/* The kernels for a case but for the reference's. Returns how many. */
int list_kernels(ls_context *ctx, const op_case *c, ls__candidate *out);
/* Whether a kernel of that name is offered for the case. */
bool is_offered(ls_context *ctx, const op_case *c, const char *kernel);
/* Returns the reference kernel's name: "reference", or "emulated reference" for 16-bit operands. */
const char *reference_name(const op_case *c);
/* Opens, runs and closes a kernel; fails the running test on any error. The workspace and the
 * threads' scratch start as NaN. */
void run_kernel(ls_context *ctx, const op_case *c, const char *kernel, op_buffers *b);
/* Runs and closes an open kernel, with the same checks. No other kernel of the context is open. */
void run_and_close(ls_context *ctx, const op_case *c, ls__kernel *kernel, op_buffers *b);
/* Runs a case's kernel over its buffers: run_kernel, or its counterpart for another device. */
typedef void run_fn(ls_context *ctx, const op_case *c, const char *kernel, op_buffers *b);
/* Fails the running test where the kernels' cross-entropy or its gradient loses accuracy by a
 * constant that is added to all logits. */
void check_loss_accuracy(ls_context *ctx, run_fn *run, const char *kernel);
/* Relative L2 error. */
double relative_error(const float *got, const float *wanted, size_t n);

/* Fails the running test where `got` strays from the reference's results by more than the case
 * allows. Contents of inputs whose memory an output took are not looked at. */
void compare_buffers(const op_case *c, const char *kernel, const op_buffers *got,
                     const op_buffers *wanted);

#endif
