//! Language models as streams: every linear product of a transformer runs as a
//! [`StreamLayer`](aleatron_engine::StreamLayer).
//!
//! [`InputScales::measure`] finds the scales of inputs on a text, [`StreamProducts`] executes the
//! linear products of a pass as streams, and [`evaluate_language_model`] measures the loss for each
//! length and generator. Attention, norms, rotary positions, activations and biases stay in
//! floating point on the CPU; the products run on any device of the engine.
//!
//! # Which bits
//!
//! A linear product is a dense signed layer. Its layer index is its index in the pass
//! ([`LinearId::index`]). A token position is a sample with the index `sequence * context +
//! position`. Thus neither batches nor prefill chunks nor the reuse of a cache change a bit.
//!
//! [`LinearId::index`]: aleatron_transformer::LinearId::index

mod calibrate;
mod checkpoint;
mod evaluate;
mod find;
mod head;
mod job;
mod journal;
mod plan;
mod products;
mod result;
mod schedule;
mod score;
mod table;
mod text;

pub use calibrate::{DEFAULT_SHARE, InputScales};
pub use checkpoint::LanguageCheckpoint;
pub use evaluate::{LanguageProgress, evaluate_language_model};
pub use find::find_product_lengths;
pub use head::HeadStop;
pub use job::{LanguageJob, ModelOrigin};
pub use journal::{LanguageJournal, LanguageTaskResult};
pub use plan::{LanguagePlan, Sensitivity};
pub use products::{ProductSelection, Saturation, StreamProducts, check_config, with_width};
pub use result::{
    LanguageEvaluation, LanguageFigures, LanguageRow, LanguageSeed, LinearSensitivity,
};
pub use schedule::LanguageSchedule;
pub use text::{LanguageText, SplitText};
