/* test_fork.c: a child made by fork has none of the library's threads. There each verb fails with a
 * message, closing only frees, and the parent is not disturbed. */
#include "../checkpoint/checkpoint_support.h"
#include "../suite.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* All objects that a program may hold. */
typedef struct objects {
    ls_context *ctx;
    ls_dataset *data, *train, *validation;
    ls_loader *loader;
    ls_net *net;
    ls_optimizer *optimizer;
    ls_schedule *schedule;
    ls_trainer *trainer;
    ls_evaluation *evaluation;
    ls_search *search;
    ls_run_log *log;
    ls_tensor *tensor;
} objects;

static int label_of(void *user, int64_t sample)
{
    (void)user;
    return (int)(sample % 3);
}

static ls_status load_sample(void *user, int64_t sample, ls_image_writer *out)
{
    (void)user;
    uint8_t *pixels = ls_image_writer_reserve(out, SIDE, SIDE);
    for (int i = 0; pixels && i < SIDE * SIDE * 3; i++) pixels[i] = (uint8_t)(sample * 31 + i * 7);
    return LS_OK;
}

static objects open_objects(int threads)
{
    static const int n_classes = 3;
    objects o = { .ctx = ls_context_open(&(ls_context_config){ .threads = threads }) };
    o.data = ls_dataset_from_callbacks(
        o.ctx, &(ls_dataset_callbacks){
                   .sample_count = 40, .n_classes = 3, .label = label_of, .load = load_sample });
    ls_dataset_split(o.data, 0.25, 1, &o.train, &o.validation);
    o.loader =
        ls_loader_open(o.train, &(ls_loader_config){ .batch_size = BATCH, .workers = threads });
    o.net = ls_net_build(o.ctx, model, &n_classes,
                         &(ls_net_config){ .input = ls_loader_input_spec(o.loader),
                                           .loss = { LS_LOSS_CROSS_ENTROPY } });
    o.optimizer = ls_sgd(o.net, NULL);
    o.schedule =
        ls_schedule_open(o.ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT, .lr = 0.1 });
    o.trainer = ls_trainer_open(o.net, o.optimizer, o.schedule, o.loader,
                                &(ls_trainer_config){ .epochs = 2 });
    o.evaluation = ls_evaluation_open(o.ctx, &(ls_evaluation_config){ .n_classes = 3 });
    static const ls_search_parameter lr = { "lr", LS_SEARCH_LINEAR, .low = 0, .high = 1 };
    o.search = ls_search_open(
        o.ctx, &(ls_search_config){
                   .parameters = &lr, .parameter_count = 1, .trials = 2, .max_epochs = 1 });
    o.log = ls_run_log_open(o.ctx, path_of("fork_log.txt"), 0);
    o.tensor = ls_tensor_open(o.ctx, LS_F32, LS_SHAPE(2));
    expect_ok(o.ctx);
    return o;
}

static ls_status take_steps(const objects *o, int n)
{
    LS_TRY(ls_loader_start(o->loader, 0));
    for (ls_batch b; n > 0 && ls_loader_next(o->loader, &b); n--) {
        LS_TRY(ls_net_step(o->net, o->optimizer, &b, 0.1));
        LS_TRY(ls_run_log_step(o->log, o->net, &b));
    }
    return ls_loader_status(o->loader);
}

/* Each returns the status of a verb, or for constructors the context's. */
static ls_status step(objects *o)
{
    return ls_net_step(o->net, o->optimizer, &(ls_batch){ 0 }, 0.1);
}
static ls_status next(objects *o)
{
    ls_batch b;
    return ls_loader_next(o->loader, &b) ? LS_OK : ls_context_status(o->ctx);
}
static ls_status start(objects *o)
{
    return ls_loader_start(o->loader, 0);
}
static ls_status run_trainer(objects *o)
{
    return ls_trainer_run(o->trainer, NULL);
}
static ls_status evaluate(objects *o)
{
    ls_averages a;
    return ls_evaluate(o->net, o->loader, NULL, &a);
}
static ls_status update(objects *o)
{
    return ls_optimizer_step(o->optimizer, 0.1);
}
static ls_status read_loss(objects *o)
{
    double loss;
    return ls_net_loss(o->net, &loss);
}
static ls_status flush(objects *o)
{
    return ls_run_log_flush(o->log);
}
static ls_status save(objects *o)
{
    return ls_checkpoint_save(&(ls_training_state){ .net = o->net }, path_of("fork"));
}
static ls_status fill(objects *o)
{
    return ls_tensor_fill(o->tensor, 1);
}
static ls_status split(objects *o)
{
    ls_dataset *a, *b;
    return ls_dataset_split(o->data, 0.5, 1, &a, &b);
}
static ls_status finish(objects *o)
{
    return ls_evaluation_finish(o->evaluation);
}
static ls_status report_plateau(objects *o)
{
    return ls_schedule_report(o->schedule, 1);
}
static ls_status open_folder(objects *o)
{
    return ls_image_folder_open(o->ctx, "/") ? LS_OK : ls_context_status(o->ctx);
}
static ls_status build(objects *o)
{
    return ls_net_build(o->ctx, model, NULL, &(ls_net_config){ 0 }) ? LS_OK
                                                                    : ls_context_status(o->ctx);
}

static ls_status (*const verbs[])(objects *) = { step,           next,        start, run_trainer,
                                                 evaluate,       update,      save,  read_loss,
                                                 flush,          fill,        split, finish,
                                                 report_plateau, open_folder, build };
enum { N_VERBS = sizeof(verbs) / sizeof(verbs[0]) };

/* The index from 1 of the first verb that does not fail as it should, or 0. */
static int try_verbs(objects *o)
{
    for (int i = 0; i < N_VERBS; i++) {
        if (verbs[i](o) != LS_ERR_UNSUPPORTED || !strstr(ls_context_message(o->ctx), "fork"))
            return i + 1;
        ls_context_clear_error(o->ctx);
    }
    return 0;
}

static int close_each(objects *o)
{
    ls_trainer_close(&o->trainer);
    ls_run_log_close(&o->log);
    ls_evaluation_close(&o->evaluation);
    ls_search_close(&o->search);
    ls_optimizer_close(&o->optimizer);
    ls_net_close(&o->net);
    ls_loader_close(&o->loader);
    ls_schedule_close(&o->schedule);
    ls_dataset_close(&o->data);
    ls_tensor_close(&o->tensor);
    ls_context_close(&o->ctx);
    return 0;
}

static int close_context(objects *o)
{
    ls_context_close(&o->ctx);
    return 0;
}

/* A context that the child opens itself trains as any other. */
static int train_anew(objects *o)
{
    ls_context_close(&o->ctx);
    objects own = open_objects(2);
    const bool good = ls_trainer_run(own.trainer, NULL) == LS_OK;
    ls_context_close(&own.ctx);
    return !good;
}

/* The child's exit status. It fails in place of hanging. */
static int in_child(objects *o, int (*work)(objects *))
{
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        alarm(20);
        _exit(work(o));
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status), "signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

static void read_log(char out[4096])
{
    FILE *file = fopen(path_of("fork_log.txt"), "rb");
    ck_assert_ptr_nonnull(file);
    out[fread(out, 1, 4095, file)] = '\0';
    fclose(file);
}

/* _i: 0 = one thread and no workers, 1 = two of each. */
START_TEST(a_child_can_only_close)
{
    static int (*const works[])(objects *) = { try_verbs, close_each, close_context, train_anew };
    char logs[2][4096];
    for (int forks = 0; forks < 2; forks++) {
        objects o = open_objects(_i + 1);
        ck_assert_int_eq(take_steps(&o, 3), LS_OK);
        /* train_anew writes another run log */
        for (int i = 0; forks && i < 3; i++) ck_assert_int_eq(in_child(&o, works[i]), 0);
        expect_ok(o.ctx);
        ck_assert_int_eq(take_steps(&o, 3), LS_OK);
        ck_assert_int_eq(ls_run_log_flush(o.log), LS_OK);
        read_log(logs[forks]);
        if (forks) ck_assert_int_eq(in_child(&o, works[3]), 0);
        ck_assert_int_eq(ls_trainer_run(o.trainer, NULL), LS_OK);
        ls_context_close(&o.ctx);
    }
    ck_assert_uint_gt(strlen(logs[0]), 0);
    ck_assert_str_eq(logs[0], logs[1]);
}
END_TEST

TEST_PROGRAM(fork)
{
    begin_runs();
    return end_runs(run_loop("fork", a_child_can_only_close, 2));
}
