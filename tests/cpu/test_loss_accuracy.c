/* Cross-entropy with large logits, in every kernel and instruction set of the CPU. */
#include "../suite.h"
#include "missing_isa.h"
#include "op_case.h"

START_TEST(large_logits_lose_no_accuracy)
{
    for (int isa = LS__ISA_PLAIN; isa <= (int)ls__isa_detect(); isa++) {
        ls_context *ctx = open_cpu(1, isa);
        check_loss_accuracy(ctx, run_kernel, "reference");
        check_loss_accuracy(ctx, run_kernel, "own");
        ls_context_close(&ctx);
    }
}
END_TEST

TEST_PROGRAM(loss_accuracy)
{
    note_missing_isa("large_logits_lose_no_accuracy");
    return RUN_SUITE("loss accuracy", large_logits_lose_no_accuracy);
}
