/* 10_run.c: a run in a few calls: a folder of images and a bundled model, with everything that
 * 'lockstep train' does. The folder of the run is that of the command, which reports, compares,
 * evaluates and resumes it.
 *
 *     10_run             makes itself a folder of striped images, trains, stops and resumes
 *     10_run DIR         DIR/train/<class>/<image>, DIR/val/<class>/<image> */
#include "stripes.h"

static ls_status print_epoch(void *user, const ls_event *event)
{
    double *top1 = user;
    if (event->kind != LS_EVENT_EPOCH) return LS_OK;
    *top1 = event->validation_averages.top1;
    printf("epoch %d: validation accuracy %.3f\n", (int)event->epoch + 1, *top1);
    return LS_OK;
}

/* Trains to the end, or to its stop, and copies the name of the run's folder. */
static bool train(ls_run *run, char dir[4096])
{
    const ls_status status = ls_run_train(run, NULL);
    if (status != LS_OK) fprintf(stderr, "%s\n", ls_context_message(ls_run_context(run)));
    snprintf(dir, 4096, "%s", ls_run_dir(run));
    ls_run_close(&run);
    return status == LS_OK;
}

static bool make_images(void)
{
    return (mkdir("run-images", 0777) == 0 || errno == EEXIST) &&
           stripes_folder("run-images/train", 0, 40) && stripes_folder("run-images/val", 1000, 10);
}

int main(int argc, char **argv)
{
    char data[4096];
    double top1 = 0;
    if (argc < 2 && !make_images()) return 1;
    snprintf(data, sizeof(data), "data-dir=%s", argc > 1 ? argv[1] : "run-images");
    const char *const settings[] = { data,        "model=resnet20", "image-size=24",
                                     "epochs=15", "batch-size=16",  "stop-at=40",
                                     NULL };
    const ls_run_config config = { .settings = settings, .on_event = print_epoch, .user = &top1 };
    char dir[4096];
    if (!train(ls_run_open(NULL, &config), dir)) return 1; /* a new folder: run, run-2, ... */
    /* stopped after 40 steps, as by a signal: another process could resume it */
    const ls_run_config rest = { .on_event = print_epoch, .user = &top1 };
    if (!train(ls_run_resume(dir, &rest), dir)) return 1;
    printf("%s holds the run\n", dir);
    return argc < 2 && top1 < 0.5;
}
