/* Error classes, codes and strings that the user adds and removes, before Init and after Finalize too, and the attribute
 * MPI_LASTUSEDCODE that follows them. */
#include "check.h"

static void text_is(int line, int code, const char *expected)
{
    char text[MPI_MAX_ERROR_STRING] = "none";
    int length = -1;
    succeeded(__FILE__, line, MPI_Error_string(code, text, &length), "MPI_Error_string");
    if (strcmp(text, expected) != 0 || length != (int)strlen(expected))
        fail(__FILE__, line, "the text of %d is '%s' (%d), not '%s'", code, text, length, expected);
}

#define TEXT(code, expected) text_is(__LINE__, code, expected)

/* Classes and codes, from nothing to nothing. */
static void added_and_removed(void)
{
    int first, second, of_first, of_rank;
    OK(MPI_Add_error_class(&first));
    OK(MPI_Add_error_class(&second));
    CHECK(first > MPI_ERR_LASTCODE && second > MPI_ERR_LASTCODE && first != second, "new classes %d and %d", first,
          second);
    OK(MPI_Add_error_code(first, &of_first));
    OK(MPI_Add_error_code(MPI_ERR_RANK, &of_rank));
    CHECK(of_first > MPI_ERR_LASTCODE && of_rank > MPI_ERR_LASTCODE && of_first != of_rank, "new codes %d and %d",
          of_first, of_rank);
    SAME(class_of(first), first, "class of a class");
    SAME(class_of(of_first), first, "class of a code of an added class");
    SAME(class_of(of_rank), MPI_ERR_RANK, "class of a code of MPI_ERR_RANK");
    const int all[] = {first, second, of_first, of_rank};
    for (int i = 0; i < 4; i++)
        TEXT(all[i], "");
    OK(MPI_Add_error_string(first, "the warp is torn"));
    OK(MPI_Add_error_string(of_first, "thread 7 of the warp is torn"));
    TEXT(first, "the warp is torn");
    TEXT(of_first, "thread 7 of the warp is torn");
    TEXT(second, "");
    OK(MPI_Add_error_string(first, "gone"));
    TEXT(first, "gone");
    OK(MPI_Remove_error_string(first));
    OK(MPI_Remove_error_string(of_first));
    TEXT(first, "");
    OK(MPI_Remove_error_code(of_first));
    OK(MPI_Remove_error_code(of_rank));
    OK(MPI_Remove_error_class(first));
    OK(MPI_Remove_error_class(second));
    /* None of the numbers comes back: who still has one finds out. */
    int next;
    OK(MPI_Add_error_class(&next));
    for (int i = 0; i < 4; i++)
        CHECK(next != all[i], "the number %d has come back", next);
    OK(MPI_Remove_error_class(next));
}

static int *last_used;

static void last_used_is(int line, int expected)
{
    int *value, flag;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag));
    same(__FILE__, line, flag, 1, "flag of MPI_LASTUSEDCODE");
    same(__FILE__, line, *value, expected, "MPI_LASTUSEDCODE");
    same(__FILE__, line, *last_used, expected, "MPI_LASTUSEDCODE by a pointer got before");
}

#define LAST_USED(expected) last_used_is(__LINE__, expected)

static void last_used_follows(void)
{
    int flag, class, code;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last_used, &flag));
    LAST_USED(MPI_ERR_LASTCODE);
    OK(MPI_Add_error_class(&class));
    LAST_USED(class);
    OK(MPI_Add_error_code(class, &code));
    LAST_USED(code);
    OK(MPI_Remove_error_code(code));
    LAST_USED(class);
    OK(MPI_Remove_error_class(class));
    LAST_USED(MPI_ERR_LASTCODE);
}

/* An error handler gets a code of the user's as it is. */
static int handled;

static void handle(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    handled = *code;
}

static void handlers_get_them(void)
{
    MPI_Errhandler handler;
    MPI_Comm comm;
    int code;
    OK(MPI_Add_error_code(MPI_ERR_OTHER, &code));
    OK(MPI_Comm_create_errhandler(handle, &handler));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_set_errhandler(comm, handler));
    OK(MPI_Comm_call_errhandler(comm, code));
    SAME(handled, code, "code that the handler got");
    OK(MPI_Comm_free(&comm));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Remove_error_code(code));
}

static void wrong_numbers(void)
{
    int class, code, gone, got, untouched = -7;
    char number[32], long_text[MPI_MAX_ERROR_STRING + 1];
    OK(MPI_Add_error_class(&class));
    OK(MPI_Add_error_code(class, &code));
    OK(MPI_Add_error_class(&gone));
    OK(MPI_Remove_error_class(gone));
    snprintf(number, sizeof number, "%d", code);
    ERROR(MPI_ERR_ARG, MPI_Add_error_code(code, &untouched), "errorclass", number);
    ERROR(MPI_ERR_ARG, MPI_Remove_error_class(code), "class", number);
    snprintf(number, sizeof number, "%d", class);
    ERROR(MPI_ERR_ARG, MPI_Remove_error_code(class), "code", number);
    /* In use. */
    ERROR(MPI_ERR_ARG, MPI_Remove_error_class(class), number, "1 error code");
    OK(MPI_Add_error_string(code, "x"));
    ERROR(MPI_ERR_ARG, MPI_Remove_error_code(code), "string");
    OK(MPI_Remove_error_string(code));
    ERROR(MPI_ERR_ARG, MPI_Remove_error_string(code), "string");
    OK(MPI_Remove_error_code(code));
    OK(MPI_Add_error_string(class, "x"));
    ERROR(MPI_ERR_ARG, MPI_Remove_error_class(class), "string");
    OK(MPI_Remove_error_string(class));
    const int others[] = {gone, MPI_SUCCESS, MPI_ERR_RANK, MPI_ERR_LASTCODE, -1, INT32_MAX, INT32_MIN, gone + 100};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(number, sizeof number, "%d", others[i]);
        ERROR(MPI_ERR_ARG, MPI_Remove_error_class(others[i]), number);
        ERROR(MPI_ERR_ARG, MPI_Remove_error_code(others[i]), number);
        ERROR(MPI_ERR_ARG, MPI_Add_error_string(others[i], "x"), number);
        ERROR(MPI_ERR_ARG, MPI_Remove_error_string(others[i]), number);
        if (others[i] != MPI_SUCCESS && others[i] != MPI_ERR_RANK)
            ERROR(MPI_ERR_ARG, MPI_Add_error_code(others[i], &untouched), "errorclass", number);
    }
    snprintf(number, sizeof number, "%d", gone);
    ERROR(MPI_ERR_ARG, MPI_Error_class(gone, &got), number);
    SAME(untouched, -7, "a code that was not made");
    memset(long_text, 'x', sizeof long_text);
    long_text[MPI_MAX_ERROR_STRING] = 0;
    ERROR(MPI_ERR_ARG, MPI_Add_error_string(class, long_text), "string", "MPI_MAX_ERROR_STRING");
    ERROR(MPI_ERR_ARG, MPI_Add_error_string(class, NULL), "string", "null");
    ERROR(MPI_ERR_ARG, MPI_Add_error_class(NULL), "errorclass", "null");
    ERROR(MPI_ERR_ARG, MPI_Add_error_code(class, NULL), "errorcode", "null");
    /* The longest that fits. */
    long_text[MPI_MAX_ERROR_STRING - 1] = 0;
    OK(MPI_Add_error_string(class, long_text));
    TEXT(class, long_text);
    OK(MPI_Remove_error_string(class));
    OK(MPI_Remove_error_class(class));
}

int main(int argc, char **argv)
{
    added_and_removed();
    begin(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    added_and_removed();
    last_used_follows();
    handlers_get_them();
    wrong_numbers();
    OK(MPI_Finalize());
    added_and_removed();
    if (me == 0)
        printf("error_codes: ok with %d ranks\n", ranks);
    return 0;
}
