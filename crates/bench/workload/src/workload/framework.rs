//! The framework whose pattern of access is replayed.

use crate::words::words;

words! {
    /// The framework whose pattern of access is replayed.
    #[derive(Default)]
    Framework as "framework" {
        /// PyTorch: workers are processes that live for all epochs, each reads whole batches.
        PyTorch = "pytorch",
        /// TensorFlow: threads made anew each epoch, samples interleaved.
        #[default]
        TensorFlow = "tensorflow",
        /// NVIDIA DALI: threads that live for all epochs.
        Dali = "dali",
        /// Keras: as TensorFlow.
        Keras = "keras",
        /// scikit-learn: all samples are read in order by one thread before the first step, and once for all epochs.
        SkLearn = "sklearn" | "scikit-learn",
    }
}
