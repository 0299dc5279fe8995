#include "models/weight_plan.h"

#include "models/models_fixture.h"

namespace quire::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class WeightPlanTest : public ModelsTest {};

TEST_F(WeightPlanTest, CoversEveryTensorOnceWithoutOverlap) {
  const TinyLlama model({});
  const PlannedFile planned = PlanOf(model);
  EXPECT_EQ(planned.plan.weights.size(), model.Widened().tensors().size());
  size_t end = 0;
  for (const PlannedWeight& weight : planned.plan.weights) {
    EXPECT_EQ(weight.offset, end) << weight.name;
    EXPECT_EQ(weight.offset % 64, 0u);
    end += weight.packed_bytes;
  }
  EXPECT_EQ(end, planned.plan.packed_bytes);
}

TEST_F(WeightPlanTest, AMissingTensorIsNamed) {
  for (const char* name : {"blk.1.attn_k.weight", "blk.0.ffn_norm.weight", "output_norm.weight"}) {
    TinyLlama model({});
    model.RemoveTensor(name);
    EXPECT_THAT(Refusal(model), AllOf(HasSubstr("refused.gguf"), HasSubstr(name),
                                      HasSubstr("missing"), Not(HasSubstr("corrupt"))));
  }
}

TEST_F(WeightPlanTest, AWrongShapeNamesTensorGotAndExpected) {
  TinyLlama model({});
  TinyTensor& query = model.tensor("blk.0.attn_q.weight");  // [64, 64]
  query.dimensions = {64, 32};
  query.bytes.resize(query.bytes.size() / 2);
  EXPECT_THAT(Refusal(model), AllOf(HasSubstr("blk.0.attn_q.weight"), HasSubstr("[32, 64]"),
                                    HasSubstr("[64, 64]")));
  TinyLlama transposed({});
  transposed.tensor("blk.1.attn_k.weight").dimensions = {32, 64};
  EXPECT_THAT(Refusal(transposed), AllOf(HasSubstr("blk.1.attn_k.weight"), HasSubstr("[64, 32]"),
                                         HasSubstr("[32, 64]")));
  TinyLlama deeper({});
  deeper.tensor("blk.0.ffn_up.weight").dimensions = {64, 64, 1};
  EXPECT_THAT(Refusal(deeper), HasSubstr("blk.0.ffn_up.weight"));
  TinyLlama norm({});
  norm.tensor("blk.0.attn_norm.weight").dimensions = {32};
  norm.tensor("blk.0.attn_norm.weight").bytes.resize(128);
  EXPECT_THAT(Refusal(norm),
              AllOf(HasSubstr("blk.0.attn_norm.weight"), HasSubstr("[32]"), HasSubstr("[64]")));
}

TEST_F(WeightPlanTest, ATensorThatNothingUsesIsRefusedByName) {
  for (const char* name : {"blk.0.ffn_gate_inp.weight", "blk.2.attn_q.weight", "extra.weight",
                           "blk.0.attn_q_norm.weight"}) {
    TinyLlama model({});
    model.AddTensor({name, DType::kF32, {16}, std::string(64, '\0')});
    ErrorCode code{};
    EXPECT_THAT(Refusal(model, &code), AllOf(HasSubstr(name), Not(HasSubstr("corrupt"))));
    EXPECT_EQ(code, ErrorCode::kUnsupported);
  }
}

TEST_F(WeightPlanTest, ADenseConfigurationOverTensorsOfExpertsIsRefusedByName) {
  TinyLlama model({});
  for (TinyTensor& tensor : model.tensors()) {
    if (tensor.name == "blk.0.ffn_gate.weight") tensor.name = "blk.0.ffn_gate_exps.weight";
  }
  EXPECT_THAT(Refusal(model), AllOf(HasSubstr("blk.0.ffn_gate"), Not(HasSubstr("corrupt"))));
}

TEST_F(WeightPlanTest, NamesInMessagesDriveNoTerminal) {
  TinyLlama model({});
  model.AddTensor({"x\x1b[2J", DType::kF32, {16}, std::string(64, '\0')});
  EXPECT_THAT(Refusal(model), Not(HasSubstr("\x1b")));
  TinyLlama other({});
  other.SetString("general.architecture", "x\x1b[2J");
  EXPECT_THAT(Refusal(other), Not(HasSubstr("\x1b")));
  TinyLlama scaled({});
  scaled.SetString("llama.rope.scaling.type", "x\x1b[2J");
  EXPECT_THAT(Refusal(scaled), Not(HasSubstr("\x1b")));
}

TEST_F(WeightPlanTest, AVectorOfBlocksIsRefused) {
  TinyLlama model({});
  TinyTensor& norm = model.tensor("blk.0.attn_norm.weight");
  norm.dtype = DType::kQ8_0;
  norm.bytes.resize(2 * 34);
  EXPECT_THAT(Refusal(model), AllOf(HasSubstr("blk.0.attn_norm.weight"), HasSubstr("Q8_0")));
}

}  // namespace
}  // namespace quire::testing
