/* A library to preload: it writes down what a process asks of the files below one directory, in order, or makes some of it fail.
 *
 * RECORDER_ROOT   the directory; calls about anything else pass untouched and unseen
 * RECORDER_LOG    where the record goes; writes to a file of that name with ".marks" behind it are marks in the record
 * RECORDER_SYNC   "skip": a sync does nothing and says that it did
 * RECORDER_FAULT  "kinds errno first count": the calls of these kinds, numbered from 1, that fail with that number. Then only marks and
 *                 faults are recorded. Kinds: s sync, w write, r read of any file but a log, c everything that changes. A write that
 *                 fails with ENOSPC is half a write first, as on a disk that runs full. A sync that fails is told to every handle of
 *                 its file once, as Linux does. With p, first is a place: every read of a log there fails.
 *
 * A change and its place in the record are one step under a lock. A sync is two entries, its begin and its end, and holds no lock
 * between: what is written meanwhile is not covered by it. A mark "kill" ends the process with signal 9 under that lock, so that the
 * record has all that the kernel was asked for. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS_MAX 4096
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum { SYNC = 1, WRITE = 2, READ = 4, CHANGE = 8, PLACE = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX], marks[PATH_MAX + 8];
static size_t root_length;
static int log_fd = -1, skip_syncs, fault_kinds, fault_errno;
static unsigned long fault_first, fault_count, fault_calls, syncs;
static char *paths[FDS_MAX]; /* of open files below the root, relative to it */
static char is_marks[FDS_MAX], owes_error[FDS_MAX];

static void entry(char kind, uint64_t number, uint64_t inode, const char *path, const char *other, const void *data, size_t length) {
    if (log_fd < 0 || (fault_kinds && kind != 'M' && kind != 'F')) return;
    struct __attribute__((packed)) { char kind; uint64_t number, inode; uint32_t path, other; uint64_t data; } head =
        { kind, number, inode, (uint32_t)strlen(path), (uint32_t)strlen(other), length };
    struct iovec parts[] = { { &head, sizeof head }, { (void *)path, head.path }, { (void *)other, head.other }, { (void *)data, length } };
    ssize_t want = sizeof head + head.path + head.other + (ssize_t)length;
    if (syscall(SYS_writev, log_fd, parts, 4) != want) abort();
}

__attribute__((constructor)) static void start(void) {
    const char *at = getenv("RECORDER_ROOT"), *log = getenv("RECORDER_LOG"), *fault = getenv("RECORDER_FAULT"), *sync = getenv("RECORDER_SYNC");
    if (!at || !realpath(at, root)) return;
    root_length = strlen(root);
    skip_syncs = sync && !strcmp(sync, "skip");
    if (fault) {
        char kinds[8];
        if (sscanf(fault, "%7s %d %lu %lu", kinds, &fault_errno, &fault_first, &fault_count) != 4) abort();
        for (char *kind = kinds; *kind; kind++) fault_kinds |= *kind == 's' ? SYNC : *kind == 'w' ? WRITE : *kind == 'r' ? READ : *kind == 'p' ? PLACE : CHANGE;
    }
    if (!log) return;
    snprintf(marks, sizeof marks, "%s.marks", log);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT, 0600);
    log_fd = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FDS_MAX); /* where no table looks */
    if (log_fd < 0) abort();
    syscall(SYS_close, fd);
    entry('P', 0, 0, "", "", "", 0);
}

/* The path relative to the root, or nothing. */
static const char *below(int dirfd, const char *path) {
    static __thread char joined[PATH_MAX * 2];
    if (!root_length) return NULL;
    if (path[0] != '/' && dirfd != AT_FDCWD) {
        if (dirfd < 0 || dirfd >= FDS_MAX || !paths[dirfd]) return NULL;
        snprintf(joined, sizeof joined, "%s%s%s", paths[dirfd], *paths[dirfd] ? "/" : "", path);
        return joined;
    }
    if (strncmp(path, root, root_length) || (path[root_length] && path[root_length] != '/')) return NULL;
    path += root_length;
    while (*path == '/') path++;
    snprintf(joined, sizeof joined, "%s", path);
    for (size_t end = strlen(joined); end && joined[end - 1] == '/'; end--) joined[end - 1] = 0;
    return joined;
}

static const char *of(int fd) { return fd >= 0 && fd < FDS_MAX ? paths[fd] : NULL; }

static uint64_t inode(int fd) {
    struct stat found;
    return fstat(fd, &found) ? 0 : found.st_ino;
}

/* Whether this call fails. Under the lock. Half: it has to do half of its work. */
static int fails(int kinds, const char *path, int *half) {
    if (!(fault_kinds & kinds)) return 0;
    fault_calls++;
    if (fault_calls < fault_first || fault_calls - fault_first >= fault_count) return 0;
    entry('F', fault_calls, (uint64_t)fault_errno, path, "", "", 0);
    if (half && fault_errno == ENOSPC && fault_calls == fault_first) { *half = 1; return 0; }
    errno = fault_errno;
    return 1;
}

static int finish(int result) {
    int saved = errno;
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}

static int opened(int dirfd, const char *path, int flags, mode_t mode) {
    const char *relative = below(dirfd, path);
    int is_mark = !relative && *marks && !strcmp(path, marks);
    if (!relative && !is_mark) return (int)syscall(SYS_openat, dirfd, path, flags, mode);
    pthread_mutex_lock(&lock);
    int changes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT);
    if (relative && changes && fails(CHANGE, relative, NULL)) return finish(-1);
    struct stat before;
    int missing = fstatat(dirfd, path, &before, 0);
    int fd = (int)syscall(SYS_openat, dirfd, path, flags, mode);
    if (fd < 0) return finish(fd);
    if (fd >= FDS_MAX) abort();
    free(paths[fd]);
    paths[fd] = relative ? strdup(relative) : NULL;
    is_marks[fd] = (char)is_mark;
    if (relative && missing) entry('C', 0, inode(fd), relative, "", "", 0);
    if (relative && !missing && (flags & O_TRUNC) && before.st_size) entry('T', 0, inode(fd), relative, "", "", 0);
    return finish(fd);
}

#define MODE(flags, last) mode_t mode = 0; if ((flags) & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, last); mode = va_arg(rest, mode_t); va_end(rest); }
int open(const char *path, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, flags) return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int dirfd, const char *path, int flags, ...) { MODE(flags, flags) return opened(dirfd, path, flags, mode); }
int openat64(int dirfd, const char *path, int flags, ...) { MODE(flags, flags) return opened(dirfd, path, flags | O_LARGEFILE, mode); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd) {
    if (fd == log_fd && fd >= 0) { errno = EBADF; return -1; }
    if (!of(fd) && !(fd >= 0 && fd < FDS_MAX && is_marks[fd])) return (int)syscall(SYS_close, fd);
    pthread_mutex_lock(&lock);
    free(paths[fd]);
    paths[fd] = NULL;
    is_marks[fd] = owes_error[fd] = 0;
    return finish((int)syscall(SYS_close, fd));
}

/* offset < 0: where the file stands */
static ssize_t written(int fd, const void *data, size_t length, off64_t offset) {
    int is_mark = fd >= 0 && fd < FDS_MAX && is_marks[fd];
    if (!of(fd) && !is_mark) return offset < 0 ? syscall(SYS_write, fd, data, length) : syscall(SYS_pwrite64, fd, data, length, offset);
    pthread_mutex_lock(&lock);
    if (is_mark) {
        entry('M', 0, 0, "", "", data, length);
        if (length == 4 && !memcmp(data, "kill", 4)) {
            kill(getpid(), SIGKILL);
            for (;;) pause();
        }
        return finish(0), (ssize_t)length;
    }
    int half = 0;
    if (fails(WRITE | CHANGE, of(fd), &half)) return finish(-1);
    if (half) length = (length + 1) / 2;
    ssize_t done = offset < 0 ? syscall(SYS_write, fd, data, length) : syscall(SYS_pwrite64, fd, data, length, offset);
    if (done > 0) {
        uint64_t at = offset < 0 ? (uint64_t)(lseek64(fd, 0, SEEK_CUR) - done) : (uint64_t)offset;
        entry('W', at, inode(fd), of(fd), "", data, (size_t)done);
    }
    int saved = errno;
    pthread_mutex_unlock(&lock);
    errno = saved;
    return done;
}

ssize_t write(int fd, const void *data, size_t length) { return written(fd, data, length, -1); }
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return written(fd, data, length, offset); }
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) { return written(fd, data, length, offset); }
/* A gathered write may write less than it was given: its first part that is not empty. */
static ssize_t gathered(int fd, const struct iovec *parts, int count, off64_t offset) {
    for (int part = 0; part < count; part++)
        if (parts[part].iov_len) return written(fd, parts[part].iov_base, parts[part].iov_len, offset);
    return 0;
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    return of(fd) ? gathered(fd, parts, count, -1) : syscall(SYS_writev, fd, parts, count);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    return of(fd) ? gathered(fd, parts, count, offset) : REAL(pwritev)(fd, parts, count, offset);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
    return of(fd) ? gathered(fd, parts, count, offset) : REAL(pwritev64)(fd, parts, count, offset);
}

static int is_log(const char *path) {
    size_t length = strlen(path);
    return length >= 3 && !strcmp(path + length - 3, "/db");
}

static int read_fails(int fd, off64_t at, size_t length) {
    if (!of(fd) || !(fault_kinds & (READ | PLACE))) return 0;
    pthread_mutex_lock(&lock);
    if (!is_log(of(fd))) return finish(fails(READ, of(fd), NULL));
    if (!(fault_kinds & PLACE)) return finish(0);
    if (at < 0) at = lseek64(fd, 0, SEEK_CUR);
    if ((uint64_t)at > fault_first || fault_first >= (uint64_t)at + length) return finish(0);
    entry('F', fault_first, (uint64_t)fault_errno, of(fd), "", "", 0);
    errno = fault_errno;
    return finish(1);
}
ssize_t read(int fd, void *data, size_t length) { return read_fails(fd, -1, length) ? -1 : syscall(SYS_read, fd, data, length); }
ssize_t pread(int fd, void *data, size_t length, off_t at) { return read_fails(fd, at, length) ? -1 : syscall(SYS_pread64, fd, data, length, at); }
ssize_t pread64(int fd, void *data, size_t length, off64_t at) { return read_fails(fd, at, length) ? -1 : syscall(SYS_pread64, fd, data, length, at); }

static int synced(int fd, long call) {
    if (!of(fd)) return (int)syscall(call, fd);
    pthread_mutex_lock(&lock);
    if (owes_error[fd]) {
        owes_error[fd] = 0;
        entry('F', fault_calls, (uint64_t)fault_errno, of(fd), "", "", 0);
        errno = fault_errno;
        return finish(-1);
    }
    if (fails(SYNC, of(fd), NULL)) {
        for (int other = 0; other < FDS_MAX; other++)
            if (other != fd && paths[other] && !strcmp(paths[other], paths[fd])) owes_error[other] = 1;
        return finish(-1);
    }
    uint64_t number = ++syncs, node = inode(fd);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", of(fd));
    entry('B', number, node, path, "", "", 0);
    pthread_mutex_unlock(&lock);
    if (!skip_syncs && syscall(call, fd)) return -1;
    pthread_mutex_lock(&lock);
    entry('S', number, node, path, "", "", 0);
    return finish(0);
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }
/* Not durable: nothing is recorded of it. It can fail as a sync does. */
int sync_file_range(int fd, off64_t offset, off64_t length, unsigned flags) {
    if (of(fd) && (fault_kinds & SYNC)) {
        pthread_mutex_lock(&lock);
        if (finish(fails(SYNC, of(fd), NULL))) return -1;
    }
    return skip_syncs ? 0 : (int)syscall(SYS_sync_file_range, fd, offset, length, flags);
}

static int truncated(int fd, off64_t length) {
    if (!of(fd)) return (int)syscall(SYS_ftruncate, fd, length);
    pthread_mutex_lock(&lock);
    if (fails(CHANGE, of(fd), NULL)) return finish(-1);
    int result = (int)syscall(SYS_ftruncate, fd, length);
    if (!result) entry('T', (uint64_t)length, inode(fd), of(fd), "", "", 0);
    return finish(result);
}
int ftruncate(int fd, off_t length) { return truncated(fd, length); }
int ftruncate64(int fd, off64_t length) { return truncated(fd, length); }
/* Nobody here uses these on the store; who begins to is told. */
int truncate(const char *path, off_t length) { if (below(AT_FDCWD, path)) abort(); return REAL(truncate)(path, length); }
int truncate64(const char *path, off64_t length) { if (below(AT_FDCWD, path)) abort(); return REAL(truncate64)(path, length); }
int link(const char *from, const char *to) { if (below(AT_FDCWD, to)) abort(); return REAL(link)(from, to); }
int symlink(const char *from, const char *to) { if (below(AT_FDCWD, to)) abort(); return REAL(symlink)(from, to); }
ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t length, unsigned flags) {
    if (of(out)) { errno = ENOSYS; return -1; }
    return syscall(SYS_copy_file_range, in, in_at, out, out_at, length, flags);
}

static int renamed(int from_fd, const char *from, int to_fd, const char *to, unsigned flags) {
    const char *source = below(from_fd, from);
    if (!source) return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
    char first[PATH_MAX];
    snprintf(first, sizeof first, "%s", source);
    const char *target = below(to_fd, to);
    if (!target) abort();
    pthread_mutex_lock(&lock);
    if (fails(CHANGE, first, NULL)) return finish(-1);
    int result = (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
    if (!result) entry('R', 0, 0, first, target, "", 0);
    return finish(result);
}
int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_fd, const char *from, int to_fd, const char *to) { return renamed(from_fd, from, to_fd, to, 0); }
int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags) { return renamed(from_fd, from, to_fd, to, flags); }

static int unlinked(int dirfd, const char *path, int flags) {
    const char *relative = below(dirfd, path);
    if (!relative) return (int)syscall(SYS_unlinkat, dirfd, path, flags);
    pthread_mutex_lock(&lock);
    if (fails(CHANGE, relative, NULL)) return finish(-1);
    int result = (int)syscall(SYS_unlinkat, dirfd, path, flags);
    if (!result) entry('U', 0, 0, relative, "", "", 0);
    return finish(result);
}
int unlink(const char *path) { return unlinked(AT_FDCWD, path, 0); }
int unlinkat(int dirfd, const char *path, int flags) { return unlinked(dirfd, path, flags); }
int rmdir(const char *path) { return unlinked(AT_FDCWD, path, AT_REMOVEDIR); }

static int made(int dirfd, const char *path, mode_t mode) {
    const char *relative = below(dirfd, path);
    if (!relative) return (int)syscall(SYS_mkdirat, dirfd, path, mode);
    pthread_mutex_lock(&lock);
    /* What is there already is no change. */
    struct stat found;
    if (fstatat(dirfd, path, &found, 0) && fails(CHANGE, relative, NULL)) return finish(-1);
    int result = (int)syscall(SYS_mkdirat, dirfd, path, mode);
    if (!result) entry('D', 0, 0, relative, "", "", 0);
    return finish(result);
}
int mkdir(const char *path, mode_t mode) { return made(AT_FDCWD, path, mode); }
int mkdirat(int dirfd, const char *path, mode_t mode) { return made(dirfd, path, mode); }
