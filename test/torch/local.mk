# SPDX-License-Identifier: BSD-3-Clause
# The back end of PyTorch, and its tests.
EXTRA_DIST += python/torch/README.md python/torch/pyproject.toml python/torch/weft_torch/__init__.py \
	python/torch/weft_torch/_build.py python/torch/weft_torch/csrc/backend.cpp python/torch/weft_torch/csrc/backend.hpp \
	python/torch/weft_torch/csrc/collectives.cpp python/torch/weft_torch/csrc/device.cpp \
	python/torch/weft_torch/csrc/device.hpp python/torch/weft_torch/csrc/messages.cpp \
	python/torch/weft_torch/csrc/module.cpp python/torch/weft_torch/csrc/tensors.cpp python/torch/weft_torch/csrc/tensors.hpp \
	python/torch/weft_torch/csrc/types.cpp python/torch/weft_torch/csrc/types.hpp \
	python/torch/weft_torch/csrc/work.cpp python/torch/weft_torch/csrc/work.hpp python/torch/weft_torch/csrc/world.cpp \
	python/torch/weft_torch/csrc/world.hpp
EXTRA_DIST += test/torch/backend.py test/torch/ops.py test/torch/own_run.py test/torch/torch_own.py test/torch/torch_files.py \
	test/rig/torch.known test/rig/jax test/torch/device.py test/torch/fake_device.cpp docs/examples/torch_ddp.py test/rig/torch \
	docs/examples/torch_fsdp2.py docs/examples/torch_mixed.py docs/examples/torch_pipeline.py \
	docs/examples/torch_tensor_parallel.py \
	python/torch/bench/compare.py

# Installs torch into a virtual environment and runs the tests and the examples.
check-torch: all $(fake_cuda)
	@TEST_BUILDDIR=$(abs_top_builddir) $(run_python) $(abs_top_srcdir)/test/rig/torch $(TORCH) || test $$? = 77
# The same for JAX.
check-jax: all
	@TEST_BUILDDIR=$(abs_top_builddir) $(run_python) $(abs_top_srcdir)/test/rig/jax $(JAX) || test $$? = 77
.PHONY: check-torch check-jax
