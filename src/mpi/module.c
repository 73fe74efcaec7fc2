/* module.c: the module's entry point; MPI's start and end; the ranks of a communicator. */
#include "mpi/mpi_comm.h"

#include "base/alloc.h"
#include "base/error.h"
#include "backend/module_host.h"
#include <assert.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* "Open MPI v4.1.4". */
static void name_library(char *out, size_t size)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "MPI";
    int length = 0;
    (void)MPI_Get_library_version(version, &length);
    snprintf(out, size, "%.*s", (int)strcspn(version, ",\n"), version);
}

/* ---- Start and end of MPI, once in a process ---- */

static _Atomic int n_open; /* communicators */

/* MPI_Finalize waits for the other ranks. After a failure they may wait for this one in an
 * exchange; without it the launcher ends them. A child made by fork is no rank. */
static void finalize(int exit_status, void *process)
{
    int finalized = 1;
    if (exit_status == 0 && n_open == 0 && (intptr_t)process == getpid() &&
        MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized)
        (void)MPI_Finalize();
}

/* Open MPI's components expect its symbols in the global scope, but the module was opened in a
 * local one. */
static void make_global(void)
{
    Dl_info info;
    if (dladdr((void *)(intptr_t)MPI_Init, &info) && info.dli_fname)
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

/* SERIALIZED, because a context may be used by one thread after another. */
static ls_status mpi_start(ls_context *ctx)
{
    int initialized = 0, finalized = 0, level = MPI_THREAD_SINGLE;
    LS_TRY(ls__mpi_check_alone(ctx, 0, MPI_Finalized(&finalized), "MPI_Finalized"));
    if (finalized)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "communicator 'mpi': the program has called MPI_Finalize");
    LS_TRY(ls__mpi_check_alone(ctx, 0, MPI_Initialized(&initialized), "MPI_Initialized"));
    if (initialized) {
        LS_TRY(ls__mpi_check_alone(ctx, 0, MPI_Query_thread(&level), "MPI_Query_thread"));
    } else {
        make_global();
        LS_TRY(ls__mpi_check_alone(
            ctx, 0, MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread"));
        (void)on_exit(finalize, (void *)(intptr_t)getpid());
        LS_TRY(ls__mpi_check_alone(ctx, 0,
                                   MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
                                   "MPI_Comm_set_errhandler"));
    }
    if (level < MPI_THREAD_FUNNELED)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "communicator 'mpi': the thread level of MPI is MPI_THREAD_SINGLE, "
                        "expected MPI_THREAD_FUNNELED or more from MPI_Init_thread");
    return LS_OK;
}

/* ---- Ranks ---- */

/* Another MPI's launcher starts n processes that each are the only rank. */
static ls_status check_launcher(ls_context *ctx, int n_ranks)
{
    const ls_launch launch = ls__launch_find();
    if (n_ranks > 1 || !launch.variable || launch.n_ranks <= 1) return LS_OK;
    char library[128];
    name_library(library, sizeof(library));
    return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                    "communicator 'mpi': by %s the launcher started %ld processes, but %s has 1 "
                    "rank: expected the mpirun of %s, or srun with --mpi=pmix",
                    launch.variable, launch.n_ranks, library, library);
}

/* The lowest of MPI's ranks on this machine. */
static ls_status find_machine(ls__mpi_comm *mpi, int world_rank, int *out)
{
    MPI_Comm machine = MPI_COMM_NULL;
    LS_TRY(ls__mpi_check(mpi,
                         MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world_rank,
                                             MPI_INFO_NULL, &machine),
                         "MPI_Comm_split_type"));
    *out = world_rank;
    const ls_status status =
        ls__mpi_check(mpi, MPI_Bcast(out, 1, MPI_INT, 0, machine), "MPI_Bcast");
    (void)MPI_Comm_free(&machine);
    return status;
}

/* Orders the ranks by (machine, MPI's rank). `machines` receives each one's machine: first by the
 * lowest of MPI's ranks on it, in MPI's order, then by the lowest rank on it, in our order. */
static ls_status order_ranks(ls__mpi_comm *mpi, int world_rank, int *machines)
{
    const int n = mpi->comm.n_ranks;
    int own, rank = 0;
    LS_TRY(find_machine(mpi, world_rank, &own));
    LS_TRY(ls__mpi_check(mpi, MPI_Allgather(&own, 1, MPI_INT, machines, 1, MPI_INT, MPI_COMM_WORLD),
                         "MPI_Allgather"));
    for (int r = 0; r < n; r++) rank += machines[r] < own || (machines[r] == own && r < world_rank);
    LS_TRY(
        ls__mpi_check(mpi, MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &mpi->ranks), "MPI_Comm_split"));
    LS_TRY(ls__mpi_check(mpi, MPI_Comm_set_errhandler(mpi->ranks, MPI_ERRORS_RETURN),
                         "MPI_Comm_set_errhandler"));
    LS_TRY(ls__mpi_check(mpi, MPI_Allgather(&own, 1, MPI_INT, machines, 1, MPI_INT, mpi->ranks),
                         "MPI_Allgather"));
    for (int r = 0, first = 0; r < n; r++) {
        if (machines[r] != own) first = r;
        own = machines[r];
        machines[r] = first;
    }
    mpi->comm.rank = rank;
    return LS_OK;
}

static ls_status find_max_tag(ls__mpi_comm *mpi)
{
    int *value = NULL, found = 0;
    LS_TRY(ls__mpi_check(mpi, MPI_Comm_get_attr(mpi->ranks, MPI_TAG_UB, &value, &found),
                         "MPI_Comm_get_attr"));
    mpi->max_tag = found ? *value : 32767; /* the standard's minimum */
    return LS_OK;
}

static ls_status mpi_open_ranks(ls__mpi_comm *mpi)
{
    ls_context *ctx = mpi->comm.ctx;
    int world_rank = 0;
    LS_TRY(mpi_start(ctx));
    LS_TRY(ls__mpi_check(mpi, MPI_Comm_size(MPI_COMM_WORLD, &mpi->comm.n_ranks), "MPI_Comm_size"));
    LS_TRY(ls__mpi_check(mpi, MPI_Comm_rank(MPI_COMM_WORLD, &world_rank), "MPI_Comm_rank"));
    LS_TRY(check_launcher(ctx, mpi->comm.n_ranks));
    const size_t bytes = (size_t)mpi->comm.n_ranks * sizeof(int);
    mpi->comm.machines = ls__alloc(ctx, bytes);
    mpi->n_sends = ls__zalloc(ctx, bytes);
    mpi->n_receives = ls__zalloc(ctx, bytes);
    if (!mpi->comm.machines || !mpi->n_sends || !mpi->n_receives)
        return ls__fail_memory(ctx, "communicator 'mpi'", bytes);
    LS_TRY(order_ranks(mpi, world_rank, mpi->comm.machines));
    return find_max_tag(mpi);
}

/* ---- The provider ---- */

/* Open MPI's mpirun ends all ranks within 1.4 s of MPI_Abort. After the link to a machine was lost
 * MPI_Abort waits for ever, so each rank ends itself: its own time limit ends the others. */
enum { ABORT_SECONDS = 2 };

static volatile sig_atomic_t abort_status;

static void end_process(int number)
{
    (void)number;
    _exit(abort_status);
}

static void mpi_abort(ls__comm *comm, int exit_status)
{
    const struct sigaction ends = { .sa_handler = end_process };
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    abort_status = exit_status;
    (void)sigaction(SIGALRM, &ends, NULL);
    (void)pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    alarm(ABORT_SECONDS);
    (void)MPI_Abort(((ls__mpi_comm *)comm)->ranks, exit_status);
}

/* MPI_Comm_free may wait for the other ranks, which may wait for this one after a failure. */
static void mpi_close(ls__comm *comm)
{
    ls__mpi_comm *mpi = (ls__mpi_comm *)comm;
    ls_context *ctx = comm->ctx;
    if (mpi->ranks != MPI_COMM_NULL && !ls__has_error(ctx)) (void)MPI_Comm_free(&mpi->ranks);
    ls__free(ctx, mpi->n_sends);
    ls__free(ctx, mpi->n_receives);
    ls__free(ctx, comm->machines);
    ls__free(ctx, mpi);
    n_open--;
}

static const ls__comm_provider provider = { .name = "mpi",
                                            .exchange_open = ls__mpi_exchange_open,
                                            .exchange_start = ls__mpi_exchange_start,
                                            .exchange_test = ls__mpi_exchange_test,
                                            .exchange_has_arrived = ls__mpi_exchange_has_arrived,
                                            .exchange_close = ls__mpi_exchange_close,
                                            .abort = mpi_abort,
                                            .close = mpi_close };

static ls_status mpi_open(ls_context *ctx, ls__comm **out)
{
    ls__mpi_comm *mpi = ls__zalloc(ctx, sizeof(*mpi));
    if (!mpi) return ls__fail_memory(ctx, "communicator 'mpi'", sizeof(*mpi));
    mpi->comm = (ls__comm){ .provider = &provider, .ctx = ctx };
    mpi->ranks = MPI_COMM_NULL;
    n_open++;
    const ls_status status = mpi_open_ranks(mpi);
    if (status == LS_OK)
        *out = &mpi->comm;
    else
        mpi_close(&mpi->comm);
    return status;
}

LS__MODULE_EXPORT ls__module_open_fn ls__module_open;

const ls__module *ls__module_open(const ls__host *host)
{
    static const ls__module module = { .version = LS__MODULE_VERSION,
                                       .lockstep = LS_VERSION,
                                       .comm_open = mpi_open };
    if (host->version == LS__MODULE_VERSION) ls__module_set_host(host);
    return &module;
}
