/* write.c: see write.h. The system sends both signals to the thread that writes. So they are
 * blocked in it during the write, and removed from its pending signals afterwards. */
#include "base/write.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static int write_all(int fd, const char *bytes, size_t size, int64_t at)
{
    for (size_t done = 0; done < size;) {
        const ssize_t n = at < 0 ? write(fd, bytes + done, size - done)
                                 : pwrite(fd, bytes + done, size - done, at + (off_t)done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return n == 0 ? EIO : errno;
    }
    return 0;
}

int ls__write(int fd, const void *bytes, size_t size, int64_t at)
{
    sigset_t signals, before, pending;
    sigemptyset(&signals);
    sigaddset(&signals, SIGXFSZ);
    sigaddset(&signals, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    const int error = write_all(fd, bytes, size, at);
    const int sent = error == EFBIG ? SIGXFSZ : error == EPIPE ? SIGPIPE : 0;
    if (sent && !sigismember(&pending, sent)) {
        sigemptyset(&signals);
        sigaddset(&signals, sent);
        while (sigtimedwait(&signals, NULL, &(struct timespec){ 0 }) < 0 && errno == EINTR)
            continue;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
