"""The drawings of lesson 08 count right, and say in words what they show."""

import pytest

from course_utils import gpu_pictures


@pytest.fixture
def words(monkeypatch):
    told = []
    monkeypatch.setattr(gpu_pictures, "show_figure", lambda figure, alt: told.append(alt))
    yield told
    gpu_pictures.plt.close("all")


@pytest.mark.parametrize(
    ("stride_bytes", "number_bytes", "sectors"),
    [(4, 4, 4), (8, 4, 8), (32, 4, 32), (4096, 4, 32), (2, 2, 2), (12, 4, 12), (0, 4, 1)],
)
def test_a_warp_touches_whole_sectors(stride_bytes, number_bytes, sectors):
    assert len(gpu_pictures.sectors_of_a_warp(stride_bytes, number_bytes)) == sectors


def test_a_number_may_lie_in_two_sectors():
    assert gpu_pictures.sectors_of_a_warp(31 * 4 + 2, 4)[-1] == (31 * (31 * 4 + 2) + 3) // 32


def test_the_reads_of_a_warp_are_told(words):
    gpu_pictures.warp_reads([1, 8])
    assert "stride 1: 4 sectors, 128 bytes; stride 8: 32 sectors, 1,024 bytes" in words[0]


@pytest.mark.parametrize(
    ("blocks", "multiprocessors", "waves", "idle"), [(13, 6, 3, 5), (12, 6, 2, 0), (1, 4, 1, 3)]
)
def test_waves_and_who_is_idle(words, blocks, multiprocessors, waves, idle):
    gpu_pictures.blocks_in_waves(blocks, multiprocessors)
    assert f"take {waves} waves" in words[0] and f"{idle} of {multiprocessors} are idle" in words[0]


@pytest.mark.parametrize(
    ("n", "tile", "multiprocessors", "share"),
    [(128, 128, None, 1), (129, 128, None, 129**2 / 256**2), (256, 128, 4, 1), (256, 128, 3, 4 / 6)],
)  # fmt: skip
def test_the_useful_share(n, tile, multiprocessors, share):
    assert gpu_pictures.useful_share(n, tile, multiprocessors) == pytest.approx(share)


def test_quantization_is_told_for_tiles_and_for_waves(words):
    gpu_pictures.quantization(512, tile=64, multiprocessors=4)
    assert "tiles of 64: 6% at 16" in words[0] and "and waves of 4: 2% at 16" in words[0]


def test_a_part_of_a_cuda_file_from_one_line_to_another(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_pictures, "CUDA", tmp_path)
    (tmp_path / "x.cu").write_text("int a;\n    for (;;) {\n\n        b();\n    }\nint b;\n")
    assert gpu_pictures.cuda_lines("x.cu", "for", "}") == "for (;;) {\n\n    b();\n}"
    with pytest.raises(ValueError, match="no line with 'missing'"):
        gpu_pictures.cuda_lines("x.cu", "for", "missing")
    with pytest.raises(ValueError, match="no line with 'c;'"):
        gpu_pictures.cuda_lines("x.cu", "c;", "}")


@pytest.mark.parametrize(
    ("file", "last"),
    [("flash_tiles.cu", "row_max[r] = new_max;"), ("flash_tensor_cores.cu", "multiply_values(")],
)
def test_the_parts_that_the_lesson_shows_are_there(file, last):
    part = gpu_pictures.cuda_lines(file, "for (int first_key", last)
    assert "new_max" in part and "alpha" in part and len(part.splitlines()) < 50
