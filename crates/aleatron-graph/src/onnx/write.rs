//! Writing ONNX files.
