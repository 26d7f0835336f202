// A loop as one writes it with libtorch: batches are tensors that own their memory, and go by themselves.
//
//   c++ -std=c++17 train.cpp $(pkg-config --cflags --libs forebay) -o train && ./train train.h5
//
// With libtorch, `Tensor::release()` is what at::fromDLPackVersioned takes. Without it, the program prints each sample of x and
// y as it comes: number, label, and the bits of its values.
#include <forebay.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace forebay {

// What a call failed with.
struct Error : std::runtime_error {
    explicit Error(int32_t code) : std::runtime_error(forebay_last_error()), code(code) {}
    int32_t code;
};

inline int32_t check(int32_t code)
{
    if (code < 0)
        throw Error(code);
    return code;
}

template <typename T, void (*release)(T *)> struct Free {
    void operator()(T *handle) const { release(handle); }
};

// A tensor of one field; its memory goes back with it.
class Tensor {
  public:
    explicit Tensor(DLManagedTensorVersioned *tensor) : tensor_(tensor) {}
    const DLTensor &get() const { return tensor_->dl_tensor; }
    // The pointer, for who calls its deleter from now on, such as a framework.
    DLManagedTensorVersioned *release() { return tensor_.release(); }
    int64_t size(int axis) const { return get().shape[axis]; }
    template <typename T> const T *data() const { return static_cast<const T *>(get().data); }

  private:
    struct Delete {
        void operator()(DLManagedTensorVersioned *tensor) const { tensor->deleter(tensor); }
    };
    std::unique_ptr<DLManagedTensorVersioned, Delete> tensor_;
};

// Samples side by side.
class Batch {
  public:
    explicit Batch(forebay_batch *batch) : batch_(batch) {}
    Tensor operator[](const std::string &name) const
    {
        size_t field;
        DLManagedTensorVersioned *tensor;
        check(forebay_batch_field_index(batch_.get(), name.c_str(), &field));
        check(forebay_batch_tensor(batch_.get(), field, &tensor));
        return Tensor(tensor);
    }
    size_t size() const { return forebay_batch_sample_count(batch_.get()); }
    const int64_t *samples() const { return forebay_batch_samples(batch_.get()); }

  private:
    std::unique_ptr<forebay_batch, Free<forebay_batch, forebay_batch_free>> batch_;
};

// Batches of a set of files, one epoch.
class Loader {
  public:
    Loader(const std::vector<std::string> &files, const std::vector<std::string> &fields, uint64_t batch_size)
    {
        std::vector<const char *> named, wanted;
        for (const auto &file : files)
            named.push_back(file.c_str());
        for (const auto &field : fields)
            wanted.push_back(field.c_str());
        auto set = forebay_dataset_options_defaults();
        set.files = named.data();
        set.file_count = named.size();
        set.fields = wanted.data();
        set.field_count = wanted.size();
        forebay_dataset *dataset;
        check(forebay_dataset_open(&set, &dataset));
        dataset_.reset(dataset);
        auto how = forebay_loader_options_defaults();
        how.batch_size = batch_size;
        how.shuffle = FOREBAY_SHUFFLE_FULL;
        forebay_loader *loader;
        check(forebay_loader_new(dataset, &how, &loader));
        loader_.reset(loader);
    }
    std::optional<Batch> next()
    {
        forebay_batch *batch;
        if (check(forebay_loader_next(loader_.get(), -1, &batch)) == FOREBAY_END)
            return std::nullopt;
        return Batch(batch);
    }

  private:
    std::unique_ptr<forebay_dataset, Free<forebay_dataset, forebay_dataset_free>> dataset_;
    std::unique_ptr<forebay_loader, Free<forebay_loader, forebay_loader_free>> loader_;
};

} // namespace forebay

int main(int argc, char **argv)
{
    if (argc < 2) {
        std::fprintf(stderr, "usage: train FILE...\n");
        return 2;
    }
    try {
        forebay::Loader loader({argv + 1, argv + argc}, {"x", "y"}, 8);
        while (auto batch = loader.next()) {
            auto x = (*batch)["x"];
            auto y = (*batch)["y"];
            for (size_t row = 0; row < batch->size(); row++) {
                std::printf("%lld %.9g", static_cast<long long>(batch->samples()[row]), static_cast<double>(y.data<float>()[row]));
                for (int64_t i = 0; i < x.size(1); i++) {
                    uint32_t bits;
                    std::memcpy(&bits, x.data<float>() + static_cast<int64_t>(row) * x.size(1) + i, sizeof bits);
                    std::printf(" %08x", bits);
                }
                std::printf("\n");
            }
        }
    } catch (const forebay::Error &error) {
        std::fprintf(stderr, "%s: %s\n", forebay_code_name(error.code), error.what());
        return 1;
    }
    return 0;
}
