#include "text/tokenizer.h"

#include <utility>

#include "text/bpe_tokenizer.h"
#include "text/spm_tokenizer.h"
#include "text/vocabulary.h"

namespace quire {

Result<std::unique_ptr<Tokenizer>> Tokenizer::FromGguf(const GgufFile& file) {
  QUIRE_ASSIGN_OR_RETURN(Vocabulary vocabulary, ReadVocabulary(file));
  if (vocabulary.model == "llama") {
    QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                           SpmTokenizer::Create(std::move(vocabulary)));
    return tokenizer;
  }
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                         BpeTokenizer::Create(std::move(vocabulary)));
  return tokenizer;
}

}  // namespace quire
