/* scripts/gpu_check.sh on the emulated device, and on programs that are shell scripts: its
 * verdicts, its JSON lines, its goals, what is left when it is stopped; and
 * scripts/cuda_libraries.sh. */
#include "../suite.h"
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *folder;

/* Runs bash commands in the folder; their exit status, 128 and the signal where one ended them.
 * `check` is gpu_check.sh, which finds a driver; `program NAME TEXT` makes a program of the build
 * folder fake/ that is a shell script. */
static int run(const char *format, ...)
{
    char command[4096];
    va_list arguments;
    int n = snprintf(
        command, sizeof(command),
        "cd %s || exit 99; export TMPDIR=$PWD; exec >>printed 2>&1; mkdir -p path fake/bin\n"
        "program() { printf '#!/bin/sh\\n%%s\\n' \"$2\" >fake/bin/$1; chmod +x fake/bin/$1; }\n"
        "tool() { printf '#!/bin/sh\\n%%s\\n' \"$2\" >path/$1; chmod +x path/$1; }\n"
        "ln -sfn '%s' source; ln -sfn '%s' build\n"
        "scripts=$PWD/source/scripts build=$PWD/build PATH=$PWD/path:$PATH\n"
        "[ -e path/nvidia-smi ] || tool nvidia-smi 'echo emulated GPU, 1.0'\n"
        "[ -e path/python3 ] || tool python3 'exit 1'\n"
        "check() { GPU_CHECK_PYTHON=python3 $scripts/gpu_check.sh --out out \"$@\"; }\n",
        folder, LOCKSTEP_SOURCE_DIR, LOCKSTEP_BUILD_DIR);
    va_start(arguments, format);
    n += vsnprintf(command + n, sizeof(command) - (size_t)n, format, arguments);
    va_end(arguments);
    ck_assert_int_lt(n, (int)sizeof(command));
    const pid_t child = fork();
    if (child == 0) {
        execlp("bash", "bash", "-c", command, (char *)NULL);
        _exit(99);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The programs of a build folder, none of which does anything. */
static void make_programs(void)
{
    folder = new_folder();
    ck_assert_int_eq(
        run("for name in lockstep bench_{step,sizes,photos,load} device_json philox_curand "
            "test_cuda_{net,ops,fuse,device}; do program $name 'exit 0'; done\n"
            "program test_cuda 'exec \"${0%%/*}/test_$1\"'"),
        0);
}

static void read_text(const char *name, char *out, size_t size)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "no %s", path);
    out[fread(out, 1, size - 1, file)] = '\0';
    fclose(file);
}

/* The results as a list; every line is an object. */
static json_t *read_lines(void)
{
    char path[128], printed[16384];
    json_error_t error;
    json_t *lines = json_array();
    snprintf(path, sizeof(path), "%s/out/gpu_check.jsonl", folder);
    FILE *file = fopen(path, "r");
    read_text("printed", printed, sizeof(printed));
    ck_assert_msg(file != NULL, "no %s; printed: %s", path, printed);
    for (json_t *line; (line = json_loadf(file, JSON_DISABLE_EOF_CHECK, &error));)
        json_array_append_new(lines, line);
    ck_assert_msg(feof(file), "%s; printed: %s", error.text, printed);
    fclose(file);
    return lines;
}

/* The line of a stage whose `key`, part or goal, is `name`; NULL: there is none. */
static const json_t *line_of(const json_t *lines, const char *stage, const char *key,
                             const char *name)
{
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line)
    {
        const char *text = json_string_value(json_object_get(line, key));
        if (text && strcmp(text, name) == 0 &&
            strcmp(json_string_value(json_object_get(line, "stage")), stage) == 0)
            return line;
    }
    return NULL;
}

static void finish(json_t *lines)
{
    json_decref(lines);
    remove_folder(folder);
}

static bool is_text(const json_t *line, const char *key, const char *wanted)
{
    const char *text = json_string_value(json_object_get(line, key));
    return text && strstr(text, wanted);
}

static void check_part(const json_t *lines, const char *stage, const char *name, const char *result,
                       const char *why)
{
    const json_t *line = line_of(lines, stage, "part", name);
    ck_assert_msg(line != NULL, "%s has no part %s", stage, name);
    char *text = json_dumps(line, 0);
    ck_assert_msg(is_text(line, "result", result), "expected '%s': %s", result, text);
    ck_assert_msg(!why || is_text(line, "why", why), "expected '%s': %s", why, text);
    free(text);
}

/* measured: -1 where it must not have been. */
static void check_goal(const json_t *lines, const char *stage, const char *name, double measured,
                       bool met)
{
    const json_t *line = line_of(lines, stage, "goal", name);
    ck_assert_msg(line != NULL, "%s has no goal '%s'", stage, name);
    const json_t *value = json_object_get(line, "measured"),
                 *verdict = json_object_get(line, "met");
    if (measured < 0) {
        ck_assert_msg(json_is_null(value) && json_is_null(verdict), "%s", name);
        return;
    }
    ck_assert_double_eq_tol(json_number_value(value), measured, 1e-3);
    ck_assert_msg(met ? json_is_true(verdict) : json_is_false(verdict), "%s", name);
}

START_TEST(all_is_well)
{
    folder = new_folder();
    ck_assert_int_eq(run("GPU_CHECK=small check --build $build smoke checks input cpu"), 0);
    json_t *lines = read_lines();
    check_part(lines, "smoke", "libraries", "passed", NULL);
    check_part(lines, "smoke", "net", "passed", NULL);
    check_part(lines, "checks", "ops", "passed", NULL);
    check_part(lines, "checks", "repro", "passed", NULL);
    check_goal(lines, "checks", "the same run twice: equal run logs", 1, true);
    const json_t *line = json_object_get(line_of(lines, "smoke", "part", "open"), "line");
    ck_assert(is_text(line, "device", "emulated GPU"));
    line = json_object_get(line_of(lines, "input", "part", "resnet50_f16_small"), "line");
    ck_assert_double_gt(json_number_value(json_object_get(line, "throughput")), 0);
    ck_assert(is_text(line, "data", "folder"));
    line = json_object_get(line_of(lines, "cpu", "part", "resnet18_1_threads"), "line");
    ck_assert_int_eq(json_integer_value(json_object_get(line, "threads")), 1);
    char table[16384], printed[16384];
    read_text("out/gpu_check.txt", table, sizeof(table));
    read_text("printed", printed, sizeof(printed));
    ck_assert_ptr_nonnull(strstr(table, "smoke: 0 checks failed, 0 parts had no time"));
    ck_assert_ptr_nonnull(strstr(printed, table));
    finish(lines);
}
END_TEST

/* Parts that fail, crash and hang are lines, and the next one runs. */
START_TEST(parts_are_independent)
{
    make_programs();
    ck_assert_int_eq(run("program device_json 'kill -SEGV $$'\n"
                         "program bench_sizes 'echo device cuda: lost >&2; exit 3'\n"
                         "program test_cuda_fuse 'trap \"\" TERM; sleep 100; sleep 100'\n"
                         "program lockstep 'kill -KILL $$'\n"
                         "rm fake/bin/test_cuda_device fake/bin/philox_curand\n"
                         "GPU_CHECK_PART_SECONDS=2 check --build fake smoke checks"),
                     1);
    json_t *lines = read_lines();
    check_part(lines, "smoke", "device_json", "crashed", "signal 11");
    check_part(lines, "smoke", "open", "failed", "device cuda: lost");
    check_part(lines, "smoke", "net", "passed", NULL);
    check_part(lines, "checks", "fuse", "too slow", "not done after 2 s");
    check_part(lines, "checks", "tensors", "failed", "not found");
    check_part(lines, "checks", "philox_curand", "skipped", "not built");
    check_part(lines, "checks", "demo_data", "crashed", "killed");
    check_part(lines, "checks", "repro", "crashed", "killed");
    check_goal(lines, "checks", "the same run twice: equal run logs", -1, false);
    finish(lines);
}
END_TEST

/* What is too slow has not failed, and is no success. */
START_TEST(too_slow)
{
    make_programs();
    ck_assert_int_eq(run("program test_cuda_net 'sleep 100'\n"
                         "GPU_CHECK_PART_SECONDS=2 check --build fake smoke"),
                     2);
    json_t *lines = read_lines();
    check_part(lines, "smoke", "net", "too slow", NULL);
    check_part(lines, "smoke", "end", "done", NULL);
    finish(lines);
}
END_TEST

/* All parts are reported as left out, and that is no success. */
START_TEST(no_time)
{
    make_programs();
    ck_assert_int_eq(run("check --build fake --seconds 0"), 2);
    json_t *lines = read_lines(), *line;
    size_t i, parts = 0, goals = 0;
    json_array_foreach(lines, i, line)
    {
        if (json_object_get(line, "goal")) {
            goals++;
            ck_assert(json_is_null(json_object_get(line, "met")));
        }
        parts += is_text(line, "result", "no time");
    }
    ck_assert_uint_gt(parts, 40);
    ck_assert_uint_eq(goals, 8);
    finish(lines);
}
END_TEST

/* Goals, from programs that print what they are to be computed from. */
START_TEST(goals)
{
    make_programs();
    /* 8000 images/s are 32 ms a step, of which the table's kernels are 31.68; strict takes 1.25
     * times as long as off. */
    ck_assert_int_eq(run("program bench_step 'rate=8000\n"
                         "case \"$*\" in *strict*) rate=6000;; *off*) rate=7500;; esac\n"
                         "echo conv1 conv2d cudnn 62 2=4,13=0 31.18 98.4%% 1.0 2.0 >&2\n"
                         "echo relu own 0.5 1.6%% 1.0 2.0 >&2\n"
                         "echo \"{\\\"batch\\\": 256, \\\"throughput\\\": $rate, "
                         "\\\"first_step_seconds\\\": 1.5}\"'\n"
                         "tool python3 'case \"$1 $*\" in -c*) exit 0;; *bf16*) exit 1;; esac\n"
                         "echo \"{\\\"lockstep_images_per_second\\\": 8000.0, "
                         "\\\"best_images_per_second\\\": 6400,"
                         " \\\"best\\\": \\\"fused\\\", \\\"times_best\\\": 1.25}\"'\n"
                         "check --build fake speed pytorch"),
                     0);
    json_t *lines = read_lines();
    check_goal(lines, "speed", "resnet50 224 px batch 256, f16 or bf16, images/s", 8000, true);
    check_goal(lines, "speed", "time of strict determinism / off", 1.25, false);
    check_goal(lines, "speed", "launch overhead of a replayed step", 0.01, true);
    check_goal(lines, "speed", "seconds to the first step with an algorithm cache", 1.5, false);
    check_goal(lines, "pytorch", "resnet50 224 px f16, times PyTorch's best", 1.25, false);
    check_goal(lines, "pytorch", "resnet50 224 px bf16, times PyTorch's best", -1, false);
    char table[16384];
    read_text("out/gpu_check.txt", table, sizeof(table));
    ck_assert_ptr_nonnull(strstr(table, "8000.0 images/s, PyTorch 6400.0 (fused): 1.25 times"));
    finish(lines);
}
END_TEST

START_TEST(no_driver)
{
    make_programs();
    ck_assert_int_eq(run("tool nvidia-smi 'echo no NVIDIA driver answers >&2; exit 9'\n"
                         "for name in bench_sizes bench_step test_cuda_net; do\n"
                         "  program $name 'echo no CUDA-capable device >&2; exit 1'; done\n"
                         "check --build fake smoke"),
                     1);
    json_t *lines = read_lines();
    check_part(lines, "smoke", "driver", "failed", "no NVIDIA driver answers");
    check_part(lines, "smoke", "open", "failed", "no CUDA-capable device");
    check_part(lines, "smoke", "resnet50_f16", "failed", "no CUDA-capable device");
    check_part(lines, "smoke", "end", "done", NULL);
    finish(lines);
}
END_TEST

/* A part ends the script, whose process is the parent of timeout, its own parent. */
#define END_SCRIPT                                                                                 \
    "program test_cuda_net 'read -r _ _ _ script _ </proc/$PPID/stat; kill -%s $script; sleep "    \
    "%d'\n"

START_TEST(stopped)
{
    make_programs();
    ck_assert_int_eq(run(END_SCRIPT "check --build fake smoke checks", "TERM", 100), 2);
    json_t *lines = read_lines();
    check_part(lines, "smoke", "resnet20_f16", "passed", NULL);
    check_part(lines, "smoke", "end", "stopped", NULL);
    ck_assert_ptr_null(line_of(lines, "smoke", "part", "net"));
    ck_assert_ptr_null(line_of(lines, "checks", "part", "start"));
    ck_assert_int_eq(run("rm -r out; tar xJf out.tar.xz && grep -q stopped out/gpu_check.jsonl"),
                     0);
    finish(lines);
}
END_TEST

/* Nothing can be done after SIGKILL: results have been written before. */
START_TEST(killed)
{
    make_programs();
    ck_assert_int_eq(
        run(END_SCRIPT "$scripts/gpu_check.sh --out out --build fake smoke", "KILL", 0), 128 + 9);
    json_t *lines = read_lines();
    check_part(lines, "smoke", "resnet20_f16", "passed", NULL);
    finish(lines);
}
END_TEST

START_TEST(later_stages_append)
{
    make_programs();
    ck_assert_int_eq(run("check --build fake cpu && check --build fake input"), 0);
    json_t *lines = read_lines();
    check_part(lines, "cpu", "end", "done", NULL);
    check_part(lines, "input", "end", "done", NULL);
    finish(lines);
}
END_TEST

START_TEST(refused)
{
    char printed[16384];
    make_programs();
    ck_assert_int_eq(run("mkdir out; echo mine >out/mine; check --build fake smoke"), 2);
    ck_assert_int_eq(run("grep -q mine out/mine && [ $(ls out | wc -l) = 1 ]"), 0);
    ck_assert_int_eq(run("check --build fake smok"), 2);
    ck_assert_int_eq(run("check --build fake --seconds soon"), 2);
    /* A folder that is mistyped is neither configured nor built. */
    ck_assert_int_eq(run("tool cmake 'touch configured'; check --build fakes smoke"), 2);
    ck_assert_int_eq(run("[ ! -e configured ] && [ ! -e fakes ]"), 0);
    read_text("printed", printed, sizeof(printed));
    ck_assert_ptr_nonnull(strstr(printed, "out exists, and is not of an earlier check"));
    ck_assert_ptr_nonnull(strstr(printed, "unknown stage or option 'smok'"));
    ck_assert_ptr_nonnull(strstr(printed, "--seconds requires a number, not 'soon'"));
    ck_assert_ptr_nonnull(strstr(printed, "--build fakes: neither a bundle nor a build folder"));
    remove_folder(folder);
}
END_TEST

/* Findings of compute-sanitizer in kernels of the libraries do not count, even of the same name. */
START_TEST(sanitizer_findings)
{
    static const struct {
        const char *text;
        int exit, wanted;
    } cases[] = {
        { "", 0, 0 },
        { "at void cudnn::ops::elementwise_kernel<float>(int)+0x10 in x.cu:1", 99, 0 },
        { "at my_elementwise_kernel(int)+0x10 in x.cu:1", 99, 0 },
        { "Program hit cudaErrorInvalidValue on CUDA API call to cudaMalloc", 99, 0 },
        { "at void elementwise_kernel<float>(const T1 *)+0x10 in elementwise.cu:31", 99, 1 },
        { "at 0x10 in elementwise.cu:31:norm_kernel(int)", 99, 1 },
        { "Race between Write access at norm_kernel(int)+0x1 and Read access", 99, 1 },
        { "at void cudnn::ops::elementwise_kernel<float>(int)+0x10 in x.cu:1", 3, 3 },
    };
    folder = new_folder();
    ck_assert_int_eq(run("$scripts/gpu_check/parts.sh kernels $scripts/.. >kernels"), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_msg(
            run("tool compute-sanitizer 'echo \"=========     %s\"; exit %d'\n"
                "$scripts/gpu_check/parts.sh sanitize compute-sanitizer memcheck kernels true",
                cases[i].text, cases[i].exit) == cases[i].wanted,
            "%s", cases[i].text);
    remove_folder(folder);
}
END_TEST

/* Two ranks on emulated devices, with the stand-in for NCCL; without a second GPU, nothing. */
START_TEST(ranks)
{
    folder = new_folder();
    ck_assert_int_eq(run("GPU_CHECK=small check --build $build ranks"), 0);
    json_t *lines = read_lines();
    check_part(lines, "ranks", "ranks", "skipped", "fewer than two GPUs");
    json_decref(lines);
    const int status = run("command -v mpirun && [ -e $build/liblockstep_mpi.so ] || exit 77\n"
                           "mkdir modules && ln -s \"$LOCKSTEP_MODULES/liblockstep_cuda.so\" "
                           "$build/liblockstep_mpi.so modules && rm -r out\n"
                           "tool nvidia-smi 'echo GPU 0; echo GPU 1'\n"
                           "export LOCKSTEP_MODULES=$PWD/modules CUDA_HOME=$PWD/none\n"
                           "export LD_LIBRARY_PATH=$build/tests/cuda/nccl\n"
                           "export OMPI_MCA_btl_vader_single_copy_mechanism=none\n"
                           "export OMPI_MCA_smsc=^cma\n"
                           "GPU_CHECK=small check --build $build ranks");
    if (status != 77) {
        ck_assert_int_eq(status, 0);
        lines = read_lines();
        check_part(lines, "ranks", "ranks_f32", "passed", NULL);
        check_part(lines, "ranks", "ranks_f16", "passed", NULL);
        check_part(lines, "ranks", "stopped_rank", "passed", NULL);
        json_decref(lines);
    }
    remove_folder(folder);
}
END_TEST

/* CUDA_HOME, then the system, then Python's folders; each library from the first that has it. */
START_TEST(cuda_libraries)
{
    char listed[4096], wanted[1024];
    folder = new_folder();
    ck_assert_int_eq(
        run("mkdir -p home/lib64 system site/nvidia/{a,b}/lib\n"
            "echo libcudnn.so.999 libcublasLt.so.888 >module\n"
            "touch home/lib64/libcudnn.so.999 "
            "site/nvidia/{a,b}/lib/libc{udnn.so.999,ublasLt.so.888}\n"
            "tool python3 \"ls -d $PWD/site/nvidia/*/lib\"\n"
            "export CUDA_HOME=$PWD/home LD_LIBRARY_PATH=; find=\"$scripts/cuda_libraries.sh "
            "--module module\"\n"
            "$find --list >listed && $find --path >>listed && touch system/libcublasLt.so.888 &&\n"
            "LD_LIBRARY_PATH=$PWD/system $find --path >>listed &&\n"
            "$find printenv LD_LIBRARY_PATH >>listed && ! $find && ! $find --module nowhere "
            "--list"),
        0);
    read_text("listed", listed, sizeof(listed));
    snprintf(wanted, sizeof(wanted),
             "libcublasLt.so.888 %s/site/nvidia/a/lib/libcublasLt.so.888 (Python)\n"
             "libcudnn.so.999    %s/home/lib64/libcudnn.so.999 (CUDA_HOME)\n"
             "libnvrtc.so.888    not found \n"
             "%s/home/lib64:%s/site/nvidia/a/lib\n"
             "%s/home/lib64:%s/system\n"
             "%s/home/lib64:%s/site/nvidia/a/lib\n",
             folder, folder, folder, folder, folder, folder, folder, folder);
    ck_assert_str_eq(listed, wanted);
    remove_folder(folder);
}
END_TEST

/* What the system has is not taken from a folder of Python's that is needed for another library;
 * the current folder is none of Python's; names may have spaces. */
START_TEST(folders_of_cuda_libraries)
{
    char listed[4096], wanted[1024];
    folder = new_folder();
    ck_assert_int_eq(
        run("mkdir -p 'the system' site/nvidia/a/lib 'cuda 13/lib' nvidia/a/lib\n"
            "echo libcudnn.so.999 libcublasLt.so.888 >module\n"
            "touch 'the system/libcublasLt.so.888' "
            "{site/,}nvidia/a/lib/libc{udnn.so.999,ublasLt.so.888}\n"
            "tool ldconfig \"echo ' libcublasLt.so.888 (libc6) => $PWD/the "
            "system/libcublasLt.so.888'\"\n"
            "tool python3 \"ls -d $PWD/site/nvidia/*/lib\"\n"
            "export CUDA_HOME=$PWD/none LD_LIBRARY_PATH=; find=$scripts/cuda_libraries.sh\n"
            "$find --module module --path >listed\n"
            "rm path/python3; PYTHONPATH= $find --module module --list | grep Python && exit 1\n"
            "touch 'cuda 13/lib/libcu'{dnn.so.9{,99},blasLt.so.888}\n"
            "CUDA_HOME=\"$PWD/cuda 13\" $scripts/gpu_check/parts.sh warm $find module >>listed"),
        0);
    read_text("listed", listed, sizeof(listed));
    snprintf(wanted, sizeof(wanted),
             "%s/the system:%s/site/nvidia/a/lib\n{\"files\": 3, \"bytes\": 0}\n", folder, folder);
    ck_assert_str_eq(listed, wanted);
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(gpu_check)
{
    return RUN_SUITE("gpu check", all_is_well, parts_are_independent, too_slow, no_time, goals,
                     no_driver, stopped, killed, later_stages_append, ranks, refused,
                     sanitizer_findings, cuda_libraries, folders_of_cuda_libraries);
}
