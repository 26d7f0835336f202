/* Linear regression on samples of HDF5 files: y = x . w, by stochastic gradient descent.
 *
 *   cc -std=c11 train.c $(pkg-config --cflags --libs forebay) -o train && ./train train.h5 3
 *
 * The files have variables x (samples, features) of float32 and y (samples) of float32.
 */
#include <forebay.h>

#include <stdio.h>
#include <stdlib.h>

/* Ends the program with what forebay says of its last error. */
static void check(int32_t code, const char *what)
{
    if (code >= 0)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, forebay_code_name(code), forebay_last_error());
    exit(1);
}

/* The field of this name, as a tensor in the memory of the batch. */
static DLManagedTensorVersioned *tensor_of(const forebay_batch *batch, const char *name)
{
    size_t field;
    DLManagedTensorVersioned *tensor;
    check(forebay_batch_field_index(batch, name, &field), name);
    check(forebay_batch_tensor(batch, field, &tensor), name);
    if (tensor->dl_tensor.dtype.code != 2 || tensor->dl_tensor.dtype.bits != 32) {
        fprintf(stderr, "%s is no float32\n", name);
        exit(1);
    }
    return tensor;
}

/* One step down the gradient; gives the sum of squared errors before it. */
static double step(const DLTensor *x, const DLTensor *y, float *weights)
{
    const float rate = 0.1f;
    const float *rows = x->data, *labels = y->data;
    int64_t count = x->shape[0], features = x->shape[1];
    double squares = 0;
    for (int64_t row = 0; row < count; row++) {
        float error = -labels[row];
        for (int64_t i = 0; i < features; i++)
            error += rows[row * features + i] * weights[i];
        for (int64_t i = 0; i < features; i++)
            weights[i] -= rate * error * rows[row * features + i] / (float)features;
        squares += (double)error * error;
    }
    return squares;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: train FILE EPOCHS\n");
        return 2;
    }
    const char *files[] = {argv[1]}, *fields[] = {"x:float32"};
    forebay_dataset_options set = forebay_dataset_options_defaults();
    set.files = files;
    set.file_count = 1;
    set.fields = fields;
    set.field_count = 1;
    set.label = "y:float32";
    forebay_dataset *dataset;
    check(forebay_dataset_open(&set, &dataset), "open");

    forebay_loader_options how = forebay_loader_options_defaults();
    how.batch_size = 32;
    how.shuffle = FOREBAY_SHUFFLE_FULL;
    how.seed = 7;
    how.epochs = (uint64_t)atoll(argv[2]);
    forebay_loader *loader;
    check(forebay_loader_new(dataset, &how, &loader), "loader");

    float *weights = NULL;
    uint64_t epoch = 0, samples = 0;
    double squares = 0;
    forebay_batch *batch;
    int32_t code;
    while ((code = forebay_loader_next(loader, -1, &batch)) == FOREBAY_OK) {
        if (forebay_batch_epoch(batch) != epoch) {
            printf("epoch %llu loss %.6f\n", (unsigned long long)epoch, squares / (double)samples);
            epoch = forebay_batch_epoch(batch);
            squares = 0;
            samples = 0;
        }
        DLManagedTensorVersioned *x = tensor_of(batch, "x"), *y = tensor_of(batch, "y");
        /* The tensors hold their memory: the batch may go. */
        samples += forebay_batch_sample_count(batch);
        forebay_batch_free(batch);
        if (weights == NULL)
            weights = calloc((size_t)x->dl_tensor.shape[1], sizeof *weights);
        squares += step(&x->dl_tensor, &y->dl_tensor, weights);
        x->deleter(x);
        y->deleter(y);
    }
    check(code, "next");
    printf("epoch %llu loss %.6f\n", (unsigned long long)epoch, samples ? squares / (double)samples : 0.0);
    free(weights);
    forebay_loader_free(loader);
    forebay_dataset_free(dataset);
    return 0;
}
