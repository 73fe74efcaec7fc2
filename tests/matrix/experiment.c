/* experiment.c: see experiment.h. */
#include "experiment.h"

#include "../data/loader_support.h"
#include "model.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- A run, as one process sees it. ---- */

typedef struct run {
    ls_context *ctx;
    ls_loader *val;
    ls_run_log *record;
    ls_training_state state;
    net_options options;
    recipe which;
    mistake wrong;
    const leg *leg;
    outcome *out;
    char checkpoint[4096], record_path[4096];
} run;

static int64_t side(const run *r)
{
    return r->which == RECIPE_SGD ? 19 : 23;
}

static ls_loader *open_train(const run *r, ls_dataset *data)
{
    ls_loader_config config = { .batch_size = BATCH,
                                .workers = r->leg->workers,
                                .shuffle = true,
                                .honour_exif = true,
                                .on_bad_image = LS_BAD_IMAGE_SKIP,
                                .crop = side(r),
                                .flip_probability = 0.5f };
    if (r->wrong == SEED_BY_WORKER) config.seeding = LS_SEED_BY_WORKER;
    if (r->which == RECIPE_SGD) {
        config.random_resized_crop = true;
        config.scale_min = 0.4f;
        config.scale_max = 1;
    } else {
        config.resize = side(r);
        config.crop_padding = 3;
    }
    return ls_loader_open(data, &config);
}

static void open_optimizer(run *r)
{
    ls_training_state *s = &r->state;
    if (r->which == RECIPE_SGD) {
        const ls_sgd_config sgd = {
            .momentum = 0.9f, .weight_decay = 5e-4f, .clip_norm = 1, .ema_decay = 0.9f
        };
        const ls_schedule_config cosine = { .kind = LS_SCHEDULE_COSINE,
                                            .lr = 0.05,
                                            .epochs = EPOCHS,
                                            .warmup_epochs = 2,
                                            .steps_per_epoch = STEPS_PER_EPOCH };
        s->optimizer = ls_sgd(s->net, &sgd);
        s->schedule = ls_schedule_open(r->ctx, &cosine);
    } else {
        const ls_schedule_config plateau = { .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU,
                                             .lr = 0.003,
                                             .gamma = 0.5,
                                             .patience = LS_ZERO_INT };
        s->optimizer = ls_adamw(s->net, &(ls_adam_config){ .clip_norm = 1 });
        s->schedule = ls_schedule_open(r->ctx, &plateau);
    }
}

static ls_status open_run(run *r, const char *images)
{
    const leg *l = r->leg;
    r->ctx = ls_context_open(&(ls_context_config){ .seed = 11, .threads = l->threads });
    r->options = (net_options){ .width = r->which == RECIPE_SGD ? 16 : 72,
                                .parts = r->wrong == SUM_BY_THREADS ? l->threads : GOOD_PARTS };
    ls_dataset *data = ls_image_folder_open(r->ctx, images);
    ls_training_state *s = &r->state;
    s->loader = open_train(r, data);
    r->val = ls_loader_open(data, &(ls_loader_config){ .batch_size = BATCH,
                                                       .workers = l->workers,
                                                       .resize = side(r) + 3,
                                                       .crop = side(r),
                                                       .on_bad_image = LS_BAD_IMAGE_SKIP });
    const ls_net_config training = { .input = ls_loader_input_spec(s->loader),
                                     .loss = { LS_LOSS_CROSS_ENTROPY, .label_smoothing = 0.1f } };
    s->net = ls_net_build(r->ctx, matrix_model, &r->options, &training);
    open_optimizer(r);
    return ls_context_status(r->ctx);
}

/* From the last checkpoint, if there is one; the record is cut to its step. */
static ls_status resume(run *r)
{
    ls_training_state *s = &r->state;
    ls_optimizer *optimizer = s->optimizer;
    if (access(r->checkpoint, F_OK) == 0) {
        if (r->wrong == FORGET_OPTIMIZER) s->optimizer = NULL;
        LS_TRY(ls_checkpoint_load(s, r->checkpoint));
        s->optimizer = optimizer;
    }
    if (r->wrong == REPEAT_EPOCH) s->step = 0;
    r->record = ls_run_log_open(r->ctx, r->record_path, s->epoch * STEPS_PER_EPOCH + s->step);
    return ls_context_status(r->ctx);
}

static void digest_optimizer(const run *r)
{
    int n = 0;
    for (int64_t i = 0; i < ls_net_parameter_count(r->state.net); i++) {
        const ls_parameter_info entry = ls_net_parameter_at(r->state.net, i);
        if (entry.kind == LS_PARAMETER_BUFFER) continue;
        for (int k = 0; k < ls_optimizer_state_count(r->state.optimizer) && n < N_TENSORS; k++)
            ls_tensor_digest(ls_optimizer_state(r->state.optimizer, k, entry.name),
                             &r->out->history.optimizer[n++]);
    }
}

/* The moving averages. */
static ls_status digest_averages(const run *r)
{
    int n = 0;
    LS_TRY(ls_optimizer_swap_ema(r->state.optimizer));
    for (int64_t i = 0; i < ls_net_parameter_count(r->state.net) && n < N_TENSORS; i++)
        ls_tensor_digest(ls_net_parameter_at(r->state.net, i).value,
                         &r->out->history.averages[n++]);
    return ls_optimizer_swap_ema(r->state.optimizer);
}

/* The program is linked with --wrap=write: the write beyond this size of a file kills it halfway.
 */
static int64_t file_limit = INT64_MAX;

ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
    const int64_t room = file_limit - (int64_t)lseek(fd, 0, SEEK_CUR);
    if (room >= (int64_t)n) return __real_write(fd, bytes, n);
    if (room > 0) (void)!__real_write(fd, bytes, (size_t)room);
    return raise(SIGKILL);
}

/* Kills this process when `moment` has come; IN_SAVE: in the next write to a file that has grown to
 * so many bytes, which is within the weights. */
static void maybe_die(const run *r, moment now, int64_t step)
{
    enum { HALF_WRITTEN = 300000 };
    if (now != r->leg->killed || step < r->leg->kill_step) return;
    if (now != IN_SAVE) raise(SIGKILL);
    file_limit = HALF_WRITTEN;
}

static ls_status note_step(run *r, const ls_batch *batch, int64_t step)
{
    struct step_result now = { .top1 = 0 };
    outcome *out = r->out;
    LS_TRY(ls_net_digest(r->state.net, batch, &now.digest));
    LS_TRY(ls_net_metric(r->state.net, "top1", &now.top1));
    if (out->done[step]) {
        out->n_repeated++;
        const bool same = memcmp(&now, &out->history.steps[step], sizeof(now)) == 0;
        if (!same && out->first_different < 0) out->first_different = step;
    }
    out->history.steps[step] = now;
    out->done[step] = true;
    return ls_run_log_append(r->record, &now.digest);
}

static ls_status validate(run *r)
{
    struct epoch_result *sums = &r->out->history.epochs[r->state.epoch];
    *sums = (struct epoch_result){ 0 };
    LS_TRY(ls_loader_start(r->val, 0));
    for (ls_batch b; ls_loader_next(r->val, &b);) {
        double loss, top1;
        LS_TRY(ls_net_evaluate(r->state.net, &b));
        LS_TRY(ls_net_loss(r->state.net, &loss));
        LS_TRY(ls_net_metric(r->state.net, "top1", &top1));
        sums->val_loss += loss * (double)b.n;
        sums->val_top1 += top1 * (double)b.n;
    }
    LS_TRY(ls_loader_status(r->val));
    return ls_schedule_report(r->state.schedule, sums->val_loss);
}

/* From the state's position to the end of the epoch, saving in between. */
static ls_status train_epoch(run *r)
{
    ls_training_state *s = &r->state;
    LS_TRY(ls_loader_start_at(s->loader, s->epoch, s->step));
    for (ls_batch b; ls_loader_next(s->loader, &b);) {
        const int64_t step = s->epoch * STEPS_PER_EPOCH + b.step;
        maybe_die(r, WITH_BATCH, step);
        LS_TRY(
            ls_net_step(s->net, s->optimizer, &b, ls_schedule_lr(s->schedule, s->epoch, b.step)));
        LS_TRY(note_step(r, &b, step));
        s->step = b.step + 1;
        maybe_die(r, AFTER_STEP, step);
        if ((step + 1) % SAVE_EVERY) continue;
        maybe_die(r, IN_SAVE, step);
        LS_TRY(ls_run_log_flush(r->record));
        LS_TRY(ls_checkpoint_save(s, r->checkpoint));
    }
    return ls_loader_status(s->loader);
}

/* Whether the file that all processes of the run wrote together says what they did. */
static ls_status check_record(const run *r)
{
    int64_t n;
    LS_TRY(ls_run_log_step_count(r->ctx, r->record_path, &n));
    r->out->record_good = n == STEPS;
    for (int64_t i = 0; i < STEPS && r->out->record_good; i++) {
        ls_step_digest there;
        LS_TRY(ls_run_log_read(r->ctx, r->record_path, i, &there));
        r->out->record_good = memcmp(&there, &r->out->history.steps[i].digest, sizeof(there)) == 0;
    }
    return LS_OK;
}

static ls_status train(run *r, const char *images)
{
    ls_training_state *s = &r->state;
    LS_TRY(open_run(r, images));
    LS_TRY(resume(r));
    while (s->epoch < EPOCHS) {
        LS_TRY(train_epoch(r));
        if (s->epoch % VALIDATE_EVERY == VALIDATE_EVERY - 1) LS_TRY(validate(r));
        s->epoch++;
        s->step = 0;
    }
    digest_optimizer(r);
    if (r->which == RECIPE_SGD) LS_TRY(digest_averages(r));
    ls_run_log_close(&r->record);
    LS_TRY(check_record(r));
    return ls_context_status(r->ctx);
}

/* ---- Processes. ---- */

static int run_leg(run *r, const char *images, const char *folder)
{
    snprintf(r->checkpoint, sizeof(r->checkpoint), "%s/last.safetensors", folder);
    snprintf(r->record_path, sizeof(r->record_path), "%s/run_log.txt", folder);
    const bool good = train(r, images) == LS_OK;
    if (!good) snprintf(r->out->message, sizeof(r->out->message), "%s", ls_context_message(r->ctx));
    ls_context_close(&r->ctx);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

outcome *new_outcome(void)
{
    outcome *out =
        mmap(NULL, sizeof(*out), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(out, MAP_FAILED);
    return out;
}

void run_experiment(recipe which, mistake wrong, const char *images, int n_legs, const leg *legs,
                    outcome *out)
{
    char *folder = new_folder();
    memset(out, 0, sizeof(*out));
    out->first_different = -1;
    for (int i = 0; i < n_legs; i++) {
        const pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            run r = { .which = which, .wrong = wrong, .leg = &legs[i], .out = out };
            _exit(run_leg(&r, images, folder));
        }
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        const bool good = legs[i].killed != NEVER
                              ? killed
                              : WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
        ck_assert_msg(good, "%d workers, %d threads, process %d: status %#x; %s", legs[i].workers,
                      legs[i].threads, i, (unsigned)status, out->message);
    }
    for (int i = 0; i < STEPS; i++) ck_assert_msg(out->done[i], "step %d was not done", i);
    ck_assert(out->record_good);
    remove_folder(folder);
}
