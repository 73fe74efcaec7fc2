/* Names of cuBLASLt's kernels: what is written is read again, and nothing else is. */
#include "../suite.h"
#include "cuda/cublaslt/blas_name.h"
#include <string.h>

START_TEST(written_and_read)
{
    static const struct {
        ls__blas_name name;
        const char *text;
    } cases[] = {
        { { 66, { 20, 1, 0, 0, 0, 5, 0, 2 } }, "cublaslt 66 20,1,0,0,0,5,0,2" },
        { { 0, { 0 } }, "cublaslt 0 0,0,0,0,0,0,0,0" },
        { { INT32_MAX,
            { UINT32_MAX, UINT32_MAX, 10, UINT32_MAX, 7, UINT32_MAX, UINT16_MAX, UINT16_MAX } },
          "cublaslt 2147483647 4294967295,4294967295,10,4294967295,7,4294967295,65535,65535" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[128];
        ls__blas_name name;
        memset(&name, 0xff, sizeof(name));
        ls__blas_name_write(&cases[i].name, text, sizeof(text));
        ck_assert_str_eq(text, cases[i].text);
        ck_assert(ls__blas_name_read(text, &name));
        ck_assert_mem_eq(&name, &cases[i].name, sizeof(name));
    }
}
END_TEST

START_TEST(others_are_refused)
{
    static const char *const wrong[] = { "",
                                         "cublaslt",
                                         "cublaslt ",
                                         "cublaslt 66",
                                         "cublasl 66 20,1,0,0,0,5,0,2",
                                         "cublaslt  66 20,1,0,0,0,5,0,2",
                                         " cublaslt 66 20,1,0,0,0,5,0,2",
                                         "cublaslt 66  20,1,0,0,0,5,0,2",
                                         "cublaslt 66 20,1,0,0,0,5,0",
                                         "cublaslt 66 20,1,0,0,0,5,0,",
                                         "cublaslt 66 20,1,0,0,0,5,0,2,0",
                                         "cublaslt 66 20,1,0,0,0,5,0,2 ",
                                         "cublaslt 66 20, 1,0,0,0,5,0,2",
                                         "cublaslt 66 20,+1,0,0,0,5,0,2",
                                         "cublaslt 66 20,-1,0,0,0,5,0,2",
                                         "cublaslt -1 20,1,0,0,0,5,0,2",
                                         "cublaslt 066 20,1,0,0,0,5,0,2",
                                         "cublaslt 66 20,01,0,0,0,5,0,2",
                                         "cublaslt 2147483648 20,1,0,0,0,5,0,2",
                                         "cublaslt 66 4294967296,1,0,0,0,5,0,2",
                                         "cublaslt 66 20,1,0,0,0,5,65536,2",
                                         "cublaslt 66 20,1,0,0,0,5,0,65536",
                                         "cublaslt 66 20,99999999999999999999,0,0,0,5,0,2",
                                         "cublaslt 0x42 20,1,0,0,0,5,0,2" };
    ls__blas_name name;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ck_assert_msg(!ls__blas_name_read(wrong[i], &name), "'%s' was read", wrong[i]);
}
END_TEST

TEST_PROGRAM(blas_name)
{
    return RUN_SUITE("blas name", written_and_read, others_are_refused);
}
