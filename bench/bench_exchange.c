/* bench_exchange.c: the time in which ranks add the gradients of a net's shards, beside
 * MPI_Allreduce of as many floats on the same ranks, and the part of it that a training step
 * hides, in turns. One JSON line by rank 0:
 *
 *   mpirun -n 4 --bind-to none bench_exchange --model resnet18 --shards 8
 *
 * The exchange is the net's own: the calls for the gradients after the shards of a step, which give
 * each rank the sum of the partial sums of all ranks. A round begins at a barrier and ends with the
 * last rank. LOCKSTEP_MODULES names the folder of the module for MPI, unless it is installed.
 *
 *   exchange, allreduce      milliseconds of a round: median, min, and the CPU time of all ranks
 *   step, step_in_order      a training step of a batch of --batch-size images, whose exchange runs
 *                            beside the backward pass, or when that has ended
 *   hidden                   the part of the exchange that a step hides, of the medians:
 *                            (step_in_order - step) / exchange
 *   ratio                    exchange divided by allreduce: of the medians, of the minima, and of
 *                            the CPU times */
#include "base/context.h"
#include "nn/exec/run_call.h"
#include "nn/net/net_state.h"
#include "support.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct options {
    const ls_model *model;
    int64_t image_size, shards, batch_size, rounds;
    bool sync_batch_norm;
} options;

/* The sides are timed in turns. */
enum { EXCHANGE, ALLREDUCE, STEP, STEP_IN_ORDER, N_SIDES };

/* Times of one side, per round. */
typedef struct times {
    double *seconds;
    double cpu_seconds; /* of all ranks and rounds */
} times;

typedef struct bench {
    bench_work work;
    MPI_Comm ranks; /* in the order of the context's ranks */
    ls__call *calls[LS__MAX_SHARD_SUMS][LS__MAX_SUM_CALLS]; /* of each bucket */
    int n_calls[LS__MAX_SHARD_SUMS], n_buckets;
    ls__rank_sums sums;
    float *sent, *received; /* of MPI_Allreduce */
    int n_floats;
    times times[N_SIDES];
} bench;

static ls_status fail(const char *message)
{
    fprintf(stderr, "bench_exchange: %s\n", message);
    return LS_ERR_INVALID;
}

/* ---- Set-up ---- */

/* The calls of each bucket of gradients, and values of mixed magnitudes in what they read. */
static ls_status find_calls(bench *b)
{
    ls__net_shards *s = &b->work.net->shards;
    const int64_t n_floats = b->work.net->blocks.parameter_elements;
    for (int i = LS__SHARD_GRADIENTS; i < s->n_ranges; i++, b->n_buckets++)
        for (int j = 1; j < s->sums[i].n_calls; j++)
            b->calls[b->n_buckets][b->n_calls[b->n_buckets]++] = &s->sums[i].calls[j];
    if (b->n_calls[0] == 0) return fail("no exchange: expected 2 ranks or more, by mpirun");
    if (n_floats > INT_MAX) return fail("the model has too many parameters");
    b->n_floats = (int)n_floats;
    b->sent = malloc((size_t)n_floats * sizeof *b->sent);
    b->received = malloc((size_t)n_floats * sizeof *b->received);
    if (!b->sent || !b->received) return LS_ERR_MEMORY;
    float *partial = s->ranges[LS__SHARD_GRADIENTS].partial;
    for (int64_t i = 0; i < s->n_rows * n_floats; i++)
        partial[i] = (float)(i % 1021 - 510) / (float)(1 << i % 13);
    memcpy(b->sent, partial, (size_t)n_floats * sizeof *b->sent);
    memset(b->received, 0, (size_t)n_floats * sizeof *b->received);
    return LS_OK;
}

static ls_status set_up(const options *o, bench *b)
{
    const int64_t classes = 10;
    b->work.ctx = ls_context_open(&(ls_context_config){ .threads = 1,
                                                        .shards = (int)o->shards,
                                                        .sync_batch_norm = o->sync_batch_norm,
                                                        .communicator = "mpi" });
    LS_TRY(ls_context_status(b->work.ctx));
    MPI_Comm_split(MPI_COMM_WORLD, 0, ls_context_rank(b->work.ctx), &b->ranks);
    LS_TRY(bench_open_work(&b->work, o->model, o->batch_size, o->image_size, classes));
    for (int i = 0; i < N_SIDES; i++)
        if (!(b->times[i].seconds = malloc((size_t)o->rounds * sizeof(double))))
            return LS_ERR_MEMORY;
    return find_calls(b);
}

static void close_all(bench *b)
{
    bench_report("bench_exchange", b->work.ctx);
    ls_context_close(&b->work.ctx);
    free(b->sent);
    free(b->received);
    for (int i = 0; i < N_SIDES; i++) free(b->times[i].seconds);
}

/* ---- Rounds ---- */

static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ls_status run_exchange(bench *b)
{
    static const ls__step step = { .step = 1 };
    for (int i = 0; i < b->n_buckets; i++)
        LS_TRY(ls__rank_sums_start(&b->sums, b->work.ctx, b->calls[i], b->n_calls[i], &step));
    return ls__rank_sums_wait(&b->sums, b->work.ctx, &step);
}

static ls_status run_allreduce(bench *b)
{
    const int code = MPI_Allreduce(b->sent, b->received, b->n_floats, MPI_FLOAT, MPI_SUM, b->ranks);
    return code == MPI_SUCCESS ? LS_OK : fail("MPI_Allreduce failed");
}

static ls_status run_step(bench *b)
{
    return ls_net_step(b->work.net, b->work.opt, &b->work.batch, 0.01);
}

/* A profiled step waits for each call. */
static ls_status run_step_in_order(bench *b)
{
    b->work.net->executor.profiled = true;
    const ls_status status = run_step(b);
    b->work.net->executor.profiled = false;
    return status;
}

static const struct {
    const char *name;
    ls_status (*run)(bench *b);
} sides[N_SIDES] = { [EXCHANGE] = { "exchange", run_exchange },
                     [ALLREDUCE] = { "allreduce", run_allreduce },
                     [STEP] = { "step", run_step },
                     [STEP_IN_ORDER] = { "step_in_order", run_step_in_order } };

static ls_status run_round(bench *b, int side, int64_t round)
{
    times *out = &b->times[side];
    MPI_Barrier(b->ranks);
    const double start = bench_now(), cpu_start = cpu_now();
    LS_TRY(sides[side].run(b));
    double own = bench_now() - start, own_cpu = cpu_now() - cpu_start, cpu = 0;
    MPI_Allreduce(&own, &out->seconds[round], 1, MPI_DOUBLE, MPI_MAX, b->ranks);
    MPI_Allreduce(&own_cpu, &cpu, 1, MPI_DOUBLE, MPI_SUM, b->ranks);
    out->cpu_seconds += cpu;
    return LS_OK;
}

static ls_status run_rounds(const options *o, bench *b)
{
    for (int64_t i = -1; i < o->rounds; i++)
        for (int side = 0; side < N_SIDES; side++) {
            LS_TRY(run_round(b, side, i < 0 ? 0 : i));
            if (i < 0) b->times[side].cpu_seconds = 0; /* a warm-up */
        }
    return LS_OK;
}

/* ---- Printing ---- */

static void print_times(const char *name, times *t, int64_t n)
{
    bench_sort(t->seconds, n);
    printf("\"%s\": {\"median\": %.2f, \"min\": %.2f, \"cpu\": %.2f}, ", name,
           1e3 * bench_quantile(t->seconds, n, 0.5), 1e3 * t->seconds[0],
           1e3 * t->cpu_seconds / (double)n);
}

static int count_machines(const ls__comm *comm)
{
    int n = 0;
    for (int r = 0; r < comm->n_ranks; r++) n += comm->machines[r] == r;
    return n;
}

static void print_result(const options *o, bench *b)
{
    const ls__comm *comm = b->work.ctx->comm;
    const ls__rank_sum *sum = &b->work.net->shards.ranges[LS__SHARD_GRADIENTS].ranks;
    const int64_t n = o->rounds;
    printf("{\"bench\": \"exchange\", \"model\": \"%s\", \"floats\": %d, \"shards\": %lld, "
           "\"ranks\": %d, \"machines\": %d, \"levels\": %d, \"rounds\": %lld, ",
           o->model->name, b->n_floats, (long long)o->shards, comm->n_ranks, count_machines(comm),
           sum->plan.n_levels, (long long)n);
    double medians[N_SIDES];
    for (int i = 0; i < N_SIDES; i++) {
        print_times(sides[i].name, &b->times[i], n);
        medians[i] = bench_quantile(b->times[i].seconds, n, 0.5);
    }
    const times *exchange = &b->times[EXCHANGE], *allreduce = &b->times[ALLREDUCE];
    printf("\"ratio\": {\"median\": %.3f, \"min\": %.3f, \"cpu\": %.3f}, \"hidden\": %.2f}\n",
           medians[EXCHANGE] / medians[ALLREDUCE], exchange->seconds[0] / allreduce->seconds[0],
           exchange->cpu_seconds / allreduce->cpu_seconds,
           (medians[STEP_IN_ORDER] - medians[STEP]) / medians[EXCHANGE]);
}

int main(int argc, char **argv)
{
    options o = { .model = ls_model_find("resnet18"),
                  .image_size = 32,
                  .shards = 8,
                  .batch_size = 128,
                  .rounds = 15 };
    const bench_option table[] = {
        { "--model", BENCH_MODEL, &o.model, "a bundled model, whose gradients are added" },
        { "--image-size", BENCH_NUMBER, &o.image_size, "pixels of a side" },
        { "--shards", BENCH_NUMBER, &o.shards, "parts of a batch, at least as many as ranks" },
        { "--sync-batch-norm", BENCH_FLAG, &o.sync_batch_norm,
          "batch norms of a step use the statistics of the whole batch" },
        { "--batch-size", BENCH_NUMBER, &o.batch_size, "images of a step" },
        { "--rounds", BENCH_NUMBER, &o.rounds, "of each side, after one that is not timed" },
        { 0 },
    };
    if (!bench_options(argc, argv, table)) return 2;
    bench b = { .work = { .steps = 0 } };
    ls_status status = set_up(&o, &b);
    if (status == LS_OK) status = run_rounds(&o, &b);
    if (status == LS_OK && ls_context_rank(b.work.ctx) == 0) print_result(&o, &b);
    close_all(&b);
    return status == LS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
