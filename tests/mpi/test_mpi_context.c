/* Contexts of several ranks: errors, warnings, threads; ends of a rank that end the others. The
 * first argument is the case. launch.sh checks the exit status of mpirun. */
#include "ranks.h"

#include "base/available.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void expect_open_error(ls_context_config config, ls_status status, const char *text)
{
    config.communicator = "mpi";
    checked = ls_context_open(&config);
    CHECK(ls_context_status(checked) == status);
    CHECK(strstr(ls_context_message(checked), text));
    close_ranks(&checked);
}

static void expect_warning(const ls_context *ctx, const char *text)
{
    bool found = false;
    for (int64_t i = 0; i < ls_context_warning_count(ctx); i++)
        found = found || strstr(ls_context_warning(ctx, i), text);
    CHECK(found);
}

/* Checks the contexts of two ranks. */
static void contexts(void)
{
    expect_open_error((ls_context_config){ 0 }, LS_ERR_INVALID,
                      "2 ranks need at least 2 shards; shards is 1");
    expect_open_error((ls_context_config){ .shards = 65 }, LS_ERR_INVALID,
                      "at most 64 shards; shards is 65");
    expect_open_error((ls_context_config){ .shards = 2, .device = "cuda:1" }, LS_ERR_UNSUPPORTED,
                      "device 'cuda:1' can't be used by 2 ranks, expected 'cuda' or 'auto'");

    ls_context *alone = ls_context_open(NULL); /* in spite of the launcher */
    CHECK(ls_context_status(alone) == LS_OK && ls_context_rank_count(alone) == 1);
    ls_context_close(&alone);

    checked = ls_context_open(&(ls_context_config){
        .communicator = "auto", .device = "auto", .shards = 64, .threads = 500 });
    CHECK(ls_context_status(checked) == LS_OK && ls_context_rank_count(checked) == 2);
    CHECK(ls_context_thread_count(checked) == 500);
    if (ls_context_rank(checked) == 0)
        expect_warning(checked, "2 ranks have 1000 threads on a machine of which they may use ");
    else
        CHECK(ls_context_warning_count(checked) == 0); /* one warning per machine */
    ls_context *second =
        ls_context_open(&(ls_context_config){ .communicator = "mpi", .shards = 2, .threads = 1 });
    CHECK(ls_context_status(second) == LS_OK);
    CHECK(ls_context_rank(second) == ls_context_rank(checked));
    ls_context_close(&second);
    close_ranks(&checked);
}

/* The default number of threads, of n ranks that may use all processors, or are bound to one. */
static void threads(bool bound, int n_ranks)
{
    checked = ls_context_open(&(ls_context_config){ .communicator = "mpi", .shards = 8 });
    CHECK(ls_context_status(checked) == LS_OK && ls_context_rank_count(checked) == n_ranks);
    const int available = ls__available_processors();
    const int expected = bound ? 1 : available / n_ranks > 1 ? available / n_ranks : 1;
    CHECK(ls_context_thread_count(checked) == expected);
    close_ranks(&checked);
    if (!bound) return;
    checked = ls_context_open(
        &(ls_context_config){ .communicator = "mpi", .shards = 8, .threads = n_ranks });
    if (ls_context_rank(checked) == 0)
        expect_warning(checked, "; the launcher binds each rank to some of them");
    close_ranks(&checked);
}

/* One rank, bound to a processor of several. */
static void bound_alone(void)
{
    for (int threads = 0; threads < 2; threads++) {
        checked =
            ls_context_open(&(ls_context_config){ .communicator = "auto", .threads = threads });
        CHECK(ls_context_status(checked) == LS_OK && ls_context_rank_count(checked) == 1);
        if (threads == 0)
            expect_warning(checked, "although the machine has 1 rank (mpirun --bind-to none");
        else
            CHECK(ls_context_warning_count(checked) == 0);
        close_ranks(&checked);
    }
}

/* Rank 0 waits for rank 1, which ends otherwise. */
static void end(const char *how)
{
    ls_context *ctx = open_ranks();
    int word = 1;
    ls__exchange *e;
    const ls__message message = { 1 - ctx->comm->rank, &word, sizeof(word) };
    CHECK(ctx->comm->provider->exchange_open(ctx->comm, &message, 1, &message, 1, &e) == LS_OK);
    if (ctx->comm->rank == 0) {
        CHECK(ctx->comm->provider->exchange_start(e) == LS_OK);
        wait_for(e);
        CHECK(!"the message came");
    }
    if (strcmp(how, "kill") == 0) CHECK(raise(SIGKILL) == 0);
    if (strcmp(how, "exit") == 0) exit(7);
    if (strcmp(how, "abort") == 0) ctx->comm->provider->abort(ctx->comm, 74);
    /* A program that reports an error and ends: it must not wait for rank 0. */
    ctx->comm->provider->exchange_close(e);
    close_ranks(&ctx);
    exit(strcmp(how, "close") == 0 ? 9 : EXIT_SUCCESS);
}

/* A rank that hangs: the other one's clock ends both. */
static void hang(void)
{
    checked = ls_context_open(&(ls_context_config){
        .communicator = "mpi", .shards = 2, .threads = 1, .communication_timeout_seconds = 1 });
    CHECK(ls_context_status(checked) == LS_OK);
    ls__comm *comm = checked->comm;
    CHECK(comm->timeout_seconds == 1);
    if (comm->rank == 1) raise(SIGSTOP);
    int own = 0, all[2];
    CHECK(ls__comm_gather(comm, &own, sizeof(own), all, "step 17") == LS_ERR_TIMEOUT);
    CHECK(strstr(ls_context_message(checked), "step 17"));
    comm->provider->abort(comm, 75);
}

/* Started without mpirun. */
static void alone(const char *expected)
{
    checked = ls_context_open(&(ls_context_config){ .communicator = "auto", .threads = 1 });
    if (expected) {
        CHECK(ls_context_status(checked) == LS_ERR_UNSUPPORTED);
        CHECK(strstr(ls_context_message(checked), expected));
        CHECK(strstr(ls_context_message(checked), "Open MPI v"));
    } else {
        CHECK(ls_context_status(checked) == LS_OK && ls_context_rank_count(checked) == 1);
        ls_context *mpi =
            ls_context_open(&(ls_context_config){ .communicator = "mpi", .threads = 1 });
        CHECK(ls_context_status(mpi) == LS_OK && ls_context_rank_count(mpi) == 1);
        ls_context_close(&mpi);
    }
    close_ranks(&checked);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "contexts") == 0)
        contexts();
    else if (strcmp(name, "threads") == 0)
        threads(false, atoi(argv[2]));
    else if (strcmp(name, "bound") == 0)
        threads(true, atoi(argv[2]));
    else if (strcmp(name, "bound-alone") == 0)
        bound_alone();
    else if (strcmp(name, "end") == 0)
        end(argv[2]);
    else if (strcmp(name, "hang") == 0)
        hang();
    else if (strcmp(name, "alone") == 0)
        alone(argv[2]);
    else
        return EXIT_FAILURE;
    printf("ok\n");
    return EXIT_SUCCESS;
}
