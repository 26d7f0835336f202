/* Calls of forebay.h, one group for each first argument; python/tests/test_capi.py compares what they print and write. */
#include <forebay.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

_Static_assert(sizeof(forebay_dataset_options) == 12 * 8, "as the library has it");
_Static_assert(sizeof(forebay_loader_options) == 5 * 8 + 10 * 4, "as the library has it");

static int32_t check(int32_t code)
{
    if (code < 0) {
        fprintf(stderr, "%s: %s\n", forebay_code_name(code), forebay_last_error());
        exit(1);
    }
    return code;
}

static void expect(int is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "not so: %s\n", what);
        exit(1);
    }
}

static void say(const char *what, int32_t code)
{
    printf("%s: %s: %s\n", what, forebay_code_name(code), code < 0 ? forebay_last_error() : "");
}

/* The set of one file; fields is a list that ends with NULL. */
static forebay_dataset *opened(const char *file, const char *const *fields, const char *label, const char *samples)
{
    forebay_dataset_options options = forebay_dataset_options_defaults();
    options.files = &file;
    options.file_count = 1;
    options.fields = fields;
    while (fields[options.field_count])
        options.field_count++;
    options.label = label;
    options.samples = samples;
    forebay_dataset *dataset;
    check(forebay_dataset_open(&options, &dataset));
    return dataset;
}

static forebay_loader *loader_of(const forebay_dataset *dataset, uint64_t batch_size, uint32_t shuffle, uint64_t epochs)
{
    forebay_loader_options options = forebay_loader_options_defaults();
    options.batch_size = batch_size;
    options.shuffle = shuffle;
    options.seed = 5;
    options.epochs = epochs;
    forebay_loader *loader;
    check(forebay_loader_new(dataset, &options, &loader));
    return loader;
}

/* Adds bytes to the file FOLDER/NAME. */
static void append(const char *folder, const char *name, const void *bytes, size_t len)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "ab");
    expect(file && fwrite(bytes, 1, len, file) == len && fclose(file) == 0, path);
}

/* dump FILE FOLDER SAMPLES LABEL FIELD...: the values of all fields, batch after batch, as they come. */
static void dump(char **words)
{
    forebay_dataset *dataset = opened(words[0], (const char *const *)words + 4, *words[3] ? words[3] : NULL, *words[2] ? words[2] : NULL);
    forebay_loader *loader = loader_of(dataset, 5, FOREBAY_SHUFFLE_NONE, 1);
    /* The loader goes on by itself. */
    forebay_dataset_free(dataset);
    forebay_batch *batch;
    while (check(forebay_loader_next(loader, -1, &batch)) == FOREBAY_OK) {
        append(words[1], "samples", forebay_batch_samples(batch), 8 * forebay_batch_sample_count(batch));
        append(words[1], "seeds", forebay_batch_seeds(batch), 8 * forebay_batch_sample_count(batch));
        for (size_t field = 0; field < forebay_batch_field_count(batch); field++) {
            DLManagedTensorVersioned *tensor;
            const uint8_t *bytes;
            const int64_t *offsets;
            size_t len, count;
            check(forebay_batch_tensor(batch, field, &tensor));
            check(forebay_batch_bytes(batch, field, &bytes, &len));
            expect(tensor->version.major == 1 && tensor->dl_tensor.device.device_type == 1, "a tensor of the host");
            expect(tensor->dl_tensor.data == bytes && (uintptr_t)bytes % 64 == 0, "the same memory, aligned");
            check(forebay_batch_offsets(batch, field, &offsets, &count));
            for (size_t sample = 0; sample + 1 < count; sample++) {
                int64_t length = offsets[sample + 1] - offsets[sample];
                char name[256];
                snprintf(name, sizeof name, "%s.lengths", forebay_batch_field_name(batch, field));
                append(words[1], name, &length, sizeof length);
            }
            append(words[1], forebay_batch_field_name(batch, field), tensor->dl_tensor.data, len);
            tensor->deleter(tensor);
        }
        forebay_batch_free(batch);
    }
    forebay_loader_free(loader);
}

/* get FILE FIELD: samples 3, 1 and 3 by number, whose tensor outlives all else. */
static void get(char **words)
{
    const char *fields[] = {words[1], NULL};
    const uint64_t numbers[] = {3, 1, 3};
    forebay_dataset *dataset = opened(words[0], fields, NULL, NULL);
    uint64_t length;
    char *json;
    forebay_batch *batch;
    DLManagedTensorVersioned *tensor;
    check(forebay_dataset_length(dataset, &length));
    check(forebay_dataset_describe(dataset, &json));
    printf("%llu\n%s\n", (unsigned long long)length, json);
    forebay_free_string(json);
    check(forebay_dataset_get(dataset, numbers, 3, &batch));
    check(forebay_batch_tensor(batch, 0, &tensor));
    expect(forebay_batch_seeds(batch) == NULL && forebay_batch_sample_count(batch) == 3, "no seeds");
    forebay_batch_free(batch);
    forebay_dataset_free(dataset);
    const DLTensor *values = &tensor->dl_tensor;
    expect(values->shape[0] == 3 && values->dtype.code == 2 && values->dtype.bits == 32, "float32");
    for (int64_t i = 0; i < 3 * values->strides[0]; i++)
        printf("%.9g ", (double)((float *)values->data)[i]);
    printf("\n");
    tensor->deleter(tensor);
}

/* errors FILE */
static void errors(char **words)
{
    const char *missing = "/nowhere/a.h5", *fields[] = {"x"}, *wrong[] = {"nothing"};
    forebay_dataset_options options = forebay_dataset_options_defaults();
    forebay_loader_options how = forebay_loader_options_defaults();
    forebay_dataset *dataset = (forebay_dataset *)1;
    forebay_loader *loader;
    forebay_file *file;
    forebay_batch *batch;
    DLManagedTensorVersioned *tensor;
    size_t index;
    expect(forebay_last_code() == 0 && *forebay_last_error() == 0, "no error yet");
    options.files = &missing;
    options.file_count = options.field_count = 1;
    options.fields = fields;
    say("missing file", forebay_dataset_open(&options, &dataset));
    expect(dataset == NULL && forebay_last_code() == FOREBAY_NOT_FOUND && forebay_last_errno() == 2, "ENOENT");
    options.files = (const char *const *)words;
    options.fields = wrong;
    say("wrong field", forebay_dataset_open(&options, &dataset));
    options.fields = fields;
    options.samples = "fixed:0";
    say("wrong samples", forebay_dataset_open(&options, &dataset));
    options.samples = NULL;
    options.size = 3;
    say("no options", forebay_dataset_open(&options, &dataset));
    say("null", forebay_dataset_open(NULL, &dataset));
    say("nowhere", forebay_dataset_open(&options, NULL));
    options.size = sizeof options;
    check(forebay_dataset_open(&options, &dataset));
    how.rank = 2;
    how.world = 2;
    say("rank", forebay_loader_new(dataset, &how, &loader));
    how.rank = how.world = 0;
    how.tail = 9;
    say("tail", forebay_loader_new(dataset, &how, &loader));
    how.tail = 0;
    check(forebay_loader_new(dataset, &how, &loader));
    say("state", forebay_loader_load(loader, "{}", 2, 1));
    check(forebay_loader_next(loader, -1, &batch));
    say("no field", forebay_batch_field_index(batch, "z", &index));
    say("no tensor", forebay_batch_tensor(batch, 7, &tensor));
    const uint64_t beyond = 1u << 30;
    forebay_batch_free(batch);
    say("no sample", forebay_dataset_get(dataset, &beyond, 1, &batch));
    expect(batch == NULL, "no batch");
    check(forebay_file_open(words[0], &file));
    say("no variable", forebay_file_read(file, "nothing", NULL, &tensor));
    say("selection", forebay_file_read(file, "x", "1,2,3", &tensor));
    say("null handle", forebay_dataset_length(NULL, NULL));
    expect(forebay_loader_stop(NULL) == FOREBAY_INVALID, "no loader to stop");
    expect(forebay_batch_field_name(NULL, 0) == NULL && forebay_batch_sample_count(NULL) == 0, "nothing of nothing");
    forebay_file_free(file);
    forebay_loader_free(loader);
    forebay_dataset_free(dataset);
    forebay_batch_free(NULL);
    forebay_loader_free(NULL);
    forebay_dataset_free(NULL);
    forebay_file_free(NULL);
    forebay_stage_file_free(NULL);
    forebay_free_string(NULL);
    expect(forebay_stage_close(NULL) == FOREBAY_OK, "nothing to close");
}

#define MOST 100000
static unsigned seen[MOST];
static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;

static void *take(void *loader)
{
    forebay_batch *batch;
    int32_t code;
    while ((code = forebay_loader_next(loader, 20, &batch)) != FOREBAY_END) {
        char *state;
        size_t len;
        check(code);
        check(forebay_loader_save(loader, &state, &len));
        expect(strlen(state) == len, "a text");
        forebay_free_string(state);
        if (code == FOREBAY_TIMEOUT)
            continue;
        pthread_mutex_lock(&seen_lock);
        for (size_t i = 0; i < forebay_batch_sample_count(batch); i++)
            seen[forebay_batch_samples(batch)[i]]++;
        pthread_mutex_unlock(&seen_lock);
        forebay_batch_free(batch);
    }
    /* An error of one thread is none of another's. */
    expect(forebay_last_code() == 0, "no error of this thread");
    return NULL;
}

#define ASKING 4
static unsigned had[ASKING];
static forebay_loader *endless;

/* Takes batches until there are no more, and counts them. */
static void *ask(void *count)
{
    forebay_batch *batch;
    while (check(forebay_loader_next(endless, -1, &batch)) == FOREBAY_OK) {
        forebay_batch_free(batch);
        pthread_mutex_lock(&seen_lock);
        ++*(unsigned *)count;
        pthread_mutex_unlock(&seen_lock);
    }
    expect(batch == NULL, "no batch at the end");
    return NULL;
}

/* Threads that would wait for ever all have their turns, and all end with the stop of their loader. */
static void stopped(const forebay_dataset *dataset)
{
    pthread_t started[ASKING];
    unsigned least = 0;
    endless = loader_of(dataset, 1, FOREBAY_SHUFFLE_FULL, FOREBAY_ENDLESS);
    for (int i = 0; i < ASKING; i++)
        expect(pthread_create(&started[i], NULL, ask, &had[i]) == 0, "a thread");
    while (least < 10) {
        sched_yield();
        pthread_mutex_lock(&seen_lock);
        least = had[0];
        for (int i = 1; i < ASKING; i++)
            least = had[i] < least ? had[i] : least;
        pthread_mutex_unlock(&seen_lock);
    }
    check(forebay_loader_stop(endless));
    for (int i = 0; i < ASKING; i++)
        expect(pthread_join(started[i], NULL) == 0, "its end");
    forebay_batch *batch;
    expect(forebay_loader_next(endless, 0, &batch) == FOREBAY_END, "the end stays");
    check(forebay_loader_start(endless));
    expect(check(forebay_loader_next(endless, -1, &batch)) == FOREBAY_OK, "another start");
    forebay_batch_free(batch);
    forebay_loader_free(endless);
}

/* threads FILE: four threads share the batches of three epochs; others are stopped. */
static void threads(char **words)
{
    const char *fields[] = {"x", "y", NULL};
    forebay_dataset *dataset = opened(words[0], fields, NULL, NULL);
    forebay_loader *loader = loader_of(dataset, 3, FOREBAY_SHUFFLE_FULL, 3);
    uint64_t length, batches;
    pthread_t started[4];
    check(forebay_dataset_length(dataset, &length));
    check(forebay_loader_length(loader, &batches));
    expect(batches == (length + 2) / 3, "batches of an epoch");
    for (int i = 0; i < 4; i++)
        expect(pthread_create(&started[i], NULL, take, loader) == 0, "a thread");
    for (int i = 0; i < 4; i++)
        expect(pthread_join(started[i], NULL) == 0, "its end");
    for (uint64_t i = 0; i < length; i++)
        expect(seen[i] == 3, "each sample three times");
    forebay_batch *batch;
    expect(forebay_loader_next(loader, -1, &batch) == FOREBAY_END && batch == NULL, "the end stays");
    uint64_t epoch, position;
    check(forebay_loader_start(loader));
    check(forebay_loader_next(loader, -1, &batch));
    expect(forebay_batch_epoch(batch) == 3 && forebay_batch_step(batch) == 0, "the next epoch");
    check(forebay_loader_position(loader, &epoch, &position));
    expect(epoch == 3 && position == 3, "where it is");
    forebay_batch_free(batch);
    char *json;
    check(forebay_loader_stats(loader, &json));
    printf("%s\n", json);
    forebay_free_string(json);
    check(forebay_warnings(&json));
    expect(*json == '[', "a list");
    forebay_free_string(json);
    forebay_loader_free(loader);
    stopped(dataset);
    forebay_dataset_free(dataset);
}

/* Adds the samples of up to most batches to order. */
static size_t order_of(forebay_loader *loader, int64_t *order, size_t most)
{
    forebay_batch *batch;
    size_t count = 0;
    while (most-- > 0 && check(forebay_loader_next(loader, -1, &batch)) == FOREBAY_OK) {
        for (size_t i = 0; i < forebay_batch_sample_count(batch); i++)
            order[count++] = forebay_batch_samples(batch)[i];
        forebay_batch_free(batch);
    }
    return count;
}

/* resume FILE: stopped after any number of batches, two epochs go on as if they had not been. */
static void resume(char **words)
{
    static int64_t whole[MOST], parts[MOST];
    const char *fields[] = {"x", NULL};
    forebay_dataset *dataset = opened(words[0], fields, NULL, NULL);
    forebay_loader *loader = loader_of(dataset, 7, FOREBAY_SHUFFLE_FULL, 2);
    size_t count = order_of(loader, whole, MOST);
    forebay_loader_free(loader);
    uint64_t length;
    check(forebay_dataset_length(dataset, &length));
    expect(count == 2 * length, "two epochs");
    for (size_t stop = 0; stop <= (length + 6) / 7; stop++) {
        char *state;
        size_t len;
        loader = loader_of(dataset, 7, FOREBAY_SHUFFLE_FULL, 2);
        size_t before = order_of(loader, parts, stop);
        check(forebay_loader_save(loader, &state, &len));
        forebay_loader_free(loader);
        /* After a whole epoch only one is left. */
        loader = loader_of(dataset, 7, FOREBAY_SHUFFLE_FULL, before == length ? 1 : 2);
        check(forebay_loader_load(loader, state, len, 1));
        forebay_free_string(state);
        size_t after = order_of(loader, parts + before, MOST);
        expect(before + after == count && memcmp(whole, parts, count * sizeof *whole) == 0, "the same order");
        forebay_loader_free(loader);
    }
    /* Of three batches that were taken, two were used. */
    forebay_loader_options how = forebay_loader_options_defaults();
    how.batch_size = 4;
    how.manual_commit = 1;
    forebay_batch *taken[3], *next;
    char *state;
    size_t len;
    check(forebay_loader_new(dataset, &how, &loader));
    for (int i = 0; i < 3; i++)
        check(forebay_loader_next(loader, -1, &taken[i]));
    check(forebay_loader_commit(loader, taken[1]));
    check(forebay_loader_save(loader, &state, &len));
    check(forebay_loader_load(loader, state, len, 0));
    check(forebay_loader_next(loader, -1, &next));
    expect(forebay_batch_samples(next)[0] == 8, "the third again");
    forebay_free_string(state);
    forebay_batch_free(next);
    for (int i = 0; i < 3; i++)
        forebay_batch_free(taken[i]);
    check(forebay_loader_set_epoch(loader, 9));
    check(forebay_loader_next(loader, -1, &next));
    expect(forebay_batch_epoch(next) == 9, "the epoch that was set");
    forebay_batch_free(next);
    forebay_loader_free(loader);
    /* Of two batches of an epoch and one of the next, the first was used. */
    how.batch_size = (length + 1) / 2;
    how.epochs = 2;
    check(forebay_loader_new(dataset, &how, &loader));
    for (int i = 0; i < 3; i++)
        check(forebay_loader_next(loader, -1, &taken[i]));
    check(forebay_loader_commit(loader, taken[0]));
    check(forebay_loader_save(loader, &state, &len));
    check(forebay_loader_load(loader, state, len, 1));
    for (uint64_t i = 1; i < 4; i++) {
        check(forebay_loader_next(loader, -1, &next));
        expect(forebay_batch_epoch(next) == i / 2, "the epochs again");
        expect(forebay_batch_samples(next)[0] == (int64_t)(i % 2 * how.batch_size), "all that was not used");
        forebay_batch_free(next);
    }
    forebay_free_string(state);
    for (int i = 0; i < 3; i++)
        forebay_batch_free(taken[i]);
    forebay_loader_free(loader);
    forebay_dataset_free(dataset);
}

/* file FILE VARIABLE SELECTION FOLDER */
static void file(char **words)
{
    forebay_file *file;
    DLManagedTensorVersioned *tensor;
    char *json;
    check(forebay_file_open(words[0], &file));
    check(forebay_file_describe(file, &json));
    printf("%s\n", json);
    forebay_free_string(json);
    check(forebay_file_read(file, words[1], *words[2] ? words[2] : NULL, &tensor));
    forebay_file_free(file);
    const DLTensor *values = &tensor->dl_tensor;
    size_t count = 1;
    for (int32_t axis = 0; axis < values->ndim; axis++)
        count *= (size_t)values->shape[axis];
    append(words[3], "part", values->data, count * values->dtype.bits / 8);
    tensor->deleter(tensor);
}

/* pread FILE FOLDER: all of it in pieces, three times. */
static void pread_all(char **words)
{
    static unsigned char piece[10000];
    int64_t len;
    char *json;
    for (int pass = 0; pass < 3; pass++) {
        uint64_t offset = 0;
        while ((len = forebay_pread(words[0], piece, sizeof piece, offset)) > 0) {
            append(words[1], "bytes", piece, (size_t)len);
            offset += (uint64_t)len;
        }
        expect(len == 0, "the end");
    }
    expect(forebay_pread(words[0], NULL, 0, 0) == 0, "nothing");
    expect(forebay_pread("/nowhere/a.h5", piece, 1, 0) == FOREBAY_NOT_FOUND, "no such file");
    expect(forebay_pread(words[0], NULL, 1, 0) == FOREBAY_INVALID, "no buffer");
    check(forebay_pread_stats(&json));
    printf("%s\n", json);
    forebay_free_string(json);
    forebay_pread_close();
    expect(forebay_pread(words[0], piece, 4, 1) == 4, "anew");
    forebay_pread_close();
}

/* stage AREA DESTINATION */
static void stage(char **words)
{
    forebay_stage *area;
    forebay_stage_file *file;
    check(forebay_stage_open(words[0], &area));
    check(forebay_stage_create(area, words[1], &file));
    check(forebay_stage_write_at(file, "world", 5, 6));
    check(forebay_stage_write_at(file, "hello ", 6, 0));
    expect(forebay_stage_wait(file, FOREBAY_DURABLE, 0) == FOREBAY_INVALID, "it is not sealed");
    check(forebay_stage_seal(file));
    expect(forebay_stage_write_at(file, "x", 1, 0) == FOREBAY_INVALID, "it is sealed");
    expect(check(forebay_stage_wait(file, FOREBAY_STAGED, -1)) == FOREBAY_OK, "staged");
    expect(check(forebay_stage_wait(file, FOREBAY_DURABLE, 300000)) == FOREBAY_OK, "durable");
    expect(forebay_stage_wait(file, 7, 0) == FOREBAY_INVALID, "no such milestone");
    forebay_stage_file_free(file);
    /* One that is given up changes nothing. */
    check(forebay_stage_create(area, words[1], &file));
    check(forebay_stage_write_at(file, "other", 5, 0));
    forebay_stage_file_free(file);
    say("nowhere", forebay_stage_create(area, "/nowhere/at/all", &file));
    check(forebay_stage_close(area));
}

/* store FILE: as a rank of the job, or alone. Each rank gets every sample by number, and its part of an epoch. */
static void store(char **words)
{
    const char *fields[] = {"x", "y", NULL};
    forebay_dataset *dataset = opened(words[0], fields, NULL, NULL);
    forebay_store *store;
    forebay_loader *loader;
    forebay_batch *batch;
    uint64_t length;
    size_t rank, size, index;
    char *json;
    check(forebay_dataset_length(dataset, &length));
    check(forebay_store_fill(dataset, 0, NULL, &store));
    check(forebay_store_rank(store, &rank, &size));
    for (uint64_t number = 0; number < length; number++) {
        DLManagedTensorVersioned *ours, *theirs;
        forebay_batch *direct;
        check(forebay_store_get(store, &number, 1, &batch));
        check(forebay_dataset_get(dataset, &number, 1, &direct));
        check(forebay_batch_field_index(batch, "x", &index));
        check(forebay_batch_tensor(batch, index, &ours));
        check(forebay_batch_tensor(direct, index, &theirs));
        forebay_batch_free(batch);
        forebay_batch_free(direct);
        size_t len = (size_t)ours->dl_tensor.shape[1] * sizeof(float);
        expect(memcmp(ours->dl_tensor.data, theirs->dl_tensor.data, len) == 0, "the values of the file");
        ours->deleter(ours);
        theirs->deleter(theirs);
    }
    forebay_loader_options how = forebay_loader_options_defaults();
    how.batch_size = 4;
    how.shuffle = FOREBAY_SHUFFLE_FULL;
    how.tail = FOREBAY_TAIL_PAD;
    check(forebay_store_loader(store, &how, &loader));
    printf("rank %zu of %zu:", rank, size);
    while (check(forebay_loader_next(loader, -1, &batch)) == FOREBAY_OK) {
        for (size_t i = 0; i < forebay_batch_sample_count(batch); i++)
            if (forebay_batch_samples(batch)[i] >= 0)
                printf(" %lld", (long long)forebay_batch_samples(batch)[i]);
        forebay_batch_free(batch);
    }
    printf("\n");
    check(forebay_store_stats(store, &json));
    expect(*json == '{', "numbers");
    forebay_free_string(json);
    forebay_loader_free(loader);
    forebay_dataset_free(dataset);
    check(forebay_store_close(store));
    expect(forebay_store_close(NULL) == FOREBAY_OK, "nothing to close");
}

/* polls SPEC: the samples of a set that Python described, asked for without waiting, of a loader that makes nothing ahead. */
static void polls(char **words)
{
    forebay_dataset_options described = forebay_dataset_options_defaults();
    described.spec = words[0];
    forebay_dataset *dataset;
    check(forebay_dataset_open(&described, &dataset));
    forebay_loader_options how = forebay_loader_options_defaults();
    how.batch_size = 5;
    how.prefetch = FOREBAY_NO_PREFETCH;
    /* With threads of its own: on one processor the caller makes each batch. */
    how.threads = 2;
    forebay_loader *loader;
    check(forebay_loader_new(dataset, &how, &loader));
    forebay_batch *batch;
    int32_t code;
    for (size_t asked = 0; (code = check(forebay_loader_next(loader, 0, &batch))) != FOREBAY_END; asked++) {
        expect(asked < 100000, "a batch comes however often it is asked without waiting");
        if (code == FOREBAY_TIMEOUT)
            continue;
        DLManagedTensorVersioned *tensor;
        check(forebay_batch_tensor(batch, 0, &tensor));
        for (size_t i = 0; i < forebay_batch_sample_count(batch); i++)
            printf("%lld of %lld rows\n", (long long)forebay_batch_samples(batch)[i], (long long)tensor->dl_tensor.shape[1]);
        tensor->deleter(tensor);
        forebay_batch_free(batch);
    }
    forebay_loader_free(loader);
    forebay_dataset_free(dataset);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*call)(char **words);
        int words;
    } groups[] = {{"dump", dump, 5}, {"get", get, 2}, {"errors", errors, 1}, {"threads", threads, 1}, {"resume", resume, 1},
                  {"file", file, 4}, {"pread", pread_all, 2}, {"stage", stage, 2}, {"store", store, 1}, {"polls", polls, 1}};
    expect(forebay_abi_version() == FOREBAY_ABI_VERSION && *forebay_version() != 0, "the version");
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (argc > 1 && strcmp(argv[1], groups[i].name) == 0 && argc - 2 >= groups[i].words) {
            groups[i].call(argv + 2);
            return 0;
        }
    fprintf(stderr, "usage: calls GROUP ...\n");
    return 2;
}
