/* capture.c: parts of a step as recordings, which a backend queues by one call. The copies of the
 * inputs stay outside, since their addresses change; whatever else is in a recording stays as it is
 * while the program is bound to one arena:
 *
 *   instructions, kernels, buffers   the program's; it drops its recordings when it is bound anew
 *   parameters, gradients            blocks that live as long as the net
 *   the optimizer's                  recordings are for one optimizer, by its serial number
 *   what is frozen                   training programs are dropped when that changes
 *   seed, epoch, step, rate ...      the backend brings them to the device before a launch
 *
 * A part runs plainly the first time, since libraries finish their opening then; it is recorded the
 * second time, and replayed from then on. What can't be recorded runs plainly, with a warning. */
#include "base/error.h"
#include "nn/net_state.h"

#include <string.h>

/* ---- A program's recordings ---- */

static void drop(ls__program *p, ls__part *part)
{
    const ls__backend *backend = p->ctx->device->backend;
    if (part->recording) backend->captured_close(p->ctx->device, part->recording);
    part->recording = NULL;
}

void ls__program_drop_recordings(ls__program *p)
{
    for (int i = 0; i < LS__MAX_PARTS; i++) {
        drop(p, &p->parts[i]);
        p->parts[i].refused = false;
    }
}

/* The walk's part that ends at `end`, in the place of the least recently used one if it is new. */
static ls__part *find_part(ls__program *p, uint64_t optimizer, int begin, int end)
{
    ls__part *oldest = &p->parts[0];
    for (int i = 0; i < LS__MAX_PARTS; i++) {
        ls__part *part = &p->parts[i];
        if (part->optimizer == optimizer && part->begin == begin && part->end == end) return part;
        if (part->last_used < oldest->last_used) oldest = part;
    }
    drop(p, oldest);
    *oldest = (ls__part){ .optimizer = optimizer, .begin = begin, .end = end };
    return oldest;
}

bool ls__net_is_captured(const ls_net *net)
{
    bool captured = false;
    for (int i = 0; i < LS__MAX_PARTS && net->current; i++)
        captured |= net->current->parts[i].recording != NULL;
    return captured;
}

/* ---- Running ---- */

static bool may_record(const ls_net *net)
{
    const ls__walk *walk = &net->walk;
    const ls__program *p = walk->program;
    if (!net->owned.ctx->device->backend->capture_begin || net->owned.ctx->config.nvtx)
        return false;
    return !walk->op_by_op && walk->fault_at < 0 && !p->seconds && !p->uncapturable;
}

static ls_status record(ls_net *net, ls__part *part)
{
    ls_context *ctx = net->owned.ctx;
    ls__device *device = ctx->device;
    const ls__backend *backend = device->backend;
    ls_status status = backend->capture_begin(device, &net->step);
    if (status == LS_OK) {
        for (int i = part->begin; i < part->end && status == LS_OK; i++)
            status = ls__walk_queue(net, i);
        const ls_status ended = backend->capture_end(device, &part->recording);
        if (status == LS_OK) status = ended;
    }
    if (status == LS_OK || ctx->unusable) return status;
    drop(net->walk.program, part);
    part->refused = true;
    ls__warn(ctx, "net: a step that can't be recorded is queued op by op: %s",
             ls_context_message(ctx));
    return LS_OK;
}

ls_status ls__walk_replay(ls_net *net, int end)
{
    ls__device *device = net->owned.ctx->device;
    ls__walk *walk = &net->walk;
    if (walk->next >= end || !may_record(net)) return ls__walk_plainly(net, end);
    const uint64_t optimizer = walk->optimizer ? walk->optimizer->serial : 0;
    ls__part *part = find_part(walk->program, optimizer, walk->next, end);
    part->last_used = ++net->clock;
    if (part->was_run && !part->recording && !part->refused) LS_TRY(record(net, part));
    if (!part->recording) {
        LS_TRY(ls__walk_plainly(net, end));
        part->was_run = true;
        return LS_OK;
    }
    const ls_status status = device->backend->captured_launch(device, part->recording, &net->step);
    if (status != LS_OK) {
        ls__error_in(net->owned.ctx, "step %lld of epoch %lld", (long long)net->step.step,
                     (long long)net->step.epoch);
        return status;
    }
    walk->next = end;
    ls__walk_arrived(net);
    return LS_OK;
}
