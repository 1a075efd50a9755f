#include "chat/named_templates.h"

#include <algorithm>

namespace infer::chat {
namespace {

// The names are llama.cpp's where it has them. The formats are the models' own, which llama.cpp
// does not always follow. A model's published template may contradict the code that it was trained
// with (openchat's system message, vicuna): then the code decides. No default system prompt is
// added.
constexpr NamedTemplate kTemplates[] = {
    {"alpaca", R"({{ bos_token }}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{{ m.content | trim + '\n\n' }}
{%- elif m.role == 'user' -%}{{ '### Instruction:\n' + m.content | trim + '\n\n' }}
{%- else -%}{{ '### Response:\n' + m.content | trim + eos_token + '\n\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '### Response:\n' }}{%- endif -%})",
     "### Instruction:"},
    {"chatml", R"({%- for m in messages -%}
{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%})",
     "<|im_end|>"},
    {"command-r", R"({{ bos_token }}
{%- for m in messages -%}
{%- set role = {'system': 'SYSTEM', 'user': 'USER'}.get(m.role, 'CHATBOT') -%}
{%- set content = m.content if m.role == 'system' else m.content | trim -%}
{{ '<|START_OF_TURN_TOKEN|><|' + role + '_TOKEN|>' + content + '<|END_OF_TURN_TOKEN|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}
{%- endif -%})",
     "<|END_OF_TURN_TOKEN|>"},
    {"deepseek", R"({{ bos_token }}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{{ m.content }}
{%- elif m.role == 'user' -%}{{ '### Instruction:\n' + m.content + '\n' }}
{%- else -%}{{ '### Response:\n' + m.content + '\n<|EOT|>\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '### Response:\n' }}{%- endif -%})",
     "<|EOT|>"},
    {"deepseek2", R"({{ bos_token }}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{{ m.content + '\n\n' }}
{%- elif m.role == 'user' -%}{{ 'User: ' + m.content + '\n\n' }}
{%- else -%}{{ 'Assistant: ' + m.content + '<｜end▁of▁sentence｜>' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ 'Assistant:' }}{%- endif -%})",
     "<｜end▁of▁sentence｜>"},
    {"deepseek3", R"({{ bos_token }}
{{- messages | selectattr('role', 'equalto', 'system') | map(attribute='content') | join('\n\n') }}
{%- for m in messages -%}
{%- if m.role == 'user' -%}{{ '<｜User｜>' + m.content }}
{%- elif m.role != 'system' -%}{{ '<｜Assistant｜>' + m.content + '<｜end▁of▁sentence｜>' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<｜Assistant｜>' }}{%- endif -%})",
     "<｜end▁of▁sentence｜>"},
    {"gemma", R"({{ bos_token }}
{%- set said = namespace(system='') -%}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{%- set said.system = m.content + '\n\n' -%}
{%- else -%}
{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' }}
{{- (said.system if m.role == 'user' else '') + m.content | trim + '<end_of_turn>\n' }}
{%- if m.role == 'user' -%}{%- set said.system = '' -%}{%- endif -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%})",
     "<end_of_turn>"},
    {"granite", R"({%- for m in messages -%}
{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + m.content + '<|end_of_text|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|start_of_role|>assistant<|end_of_role|>' }}
{%- endif -%})",
     "<|end_of_text|>"},
    {"llama2", R"({%- set said = namespace(system='') -%}
{%- for m in messages -%}
{%- if m.role == 'system' -%}
{%- set said.system = '<<SYS>>\n' + m.content + '\n<</SYS>>\n\n' -%}
{%- elif m.role == 'user' -%}
{{ bos_token + '[INST] ' + (said.system + m.content) | trim + ' [/INST]' }}
{%- set said.system = '' -%}
{%- else -%}{{ ' ' + m.content | trim + ' ' + eos_token }}
{%- endif -%}
{%- endfor -%})",
     "[INST]"},
    {"llama3", R"({{ bos_token }}
{%- for m in messages -%}
{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif -%})",
     "<|eot_id|>"},
    {"llama4", R"({{ bos_token }}
{%- for m in messages -%}
{%- set content = m.content | trim if m.role == 'system' else m.content -%}
{{ '<|header_start|>' + m.role + '<|header_end|>\n\n' + content + '<|eot|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|header_start|>assistant<|header_end|>\n\n' }}
{%- endif -%})",
     "<|eot|>"},
    {"mistral-v1", R"({{ bos_token }}
{%- set said = namespace(system='') -%}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{%- set said.system = m.content + '\n\n' -%}
{%- elif m.role == 'user' -%}
{{ ' [INST] ' + said.system + m.content + ' [/INST]' }}
{%- set said.system = '' -%}
{%- else -%}{{ ' ' + m.content + eos_token }}
{%- endif -%}
{%- endfor -%})",
     "[INST]"},
    {"mistral-v3", R"({{ bos_token }}
{%- set said = namespace(system='', last_user=-1) -%}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{%- set said.system = m.content + '\n\n' -%}
{%- elif m.role == 'user' -%}{%- set said.last_user = loop.index0 -%}
{%- endif -%}
{%- endfor -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}
{{ '[INST] ' + (said.system if loop.index0 == said.last_user else '') + m.content + '[/INST]' }}
{%- elif m.role != 'system' -%}{{ ' ' + m.content | trim + eos_token }}
{%- endif -%}
{%- endfor -%})",
     "[INST]"},
    {"mistral-v3-tekken", R"({{ bos_token }}
{%- set said = namespace(system='', last_user=-1) -%}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{%- set said.system = m.content + '\n\n' -%}
{%- elif m.role == 'user' -%}{%- set said.last_user = loop.index0 -%}
{%- endif -%}
{%- endfor -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}
{{ '[INST]' + (said.system if loop.index0 == said.last_user else '') + m.content + '[/INST]' }}
{%- elif m.role != 'system' -%}{{ m.content + eos_token }}
{%- endif -%}
{%- endfor -%})",
     "[INST]"},
    {"mistral-v7", R"({{ bos_token }}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{{ '[SYSTEM_PROMPT] ' + m.content + '[/SYSTEM_PROMPT]' }}
{%- elif m.role == 'user' -%}{{ '[INST] ' + m.content + '[/INST]' }}
{%- else -%}{{ ' ' + m.content + eos_token }}
{%- endif -%}
{%- endfor -%})",
     "[INST]"},
    {"openchat", R"({{ bos_token }}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{{ m.content + '<|end_of_turn|>' }}
{%- else -%}{{ 'GPT4 Correct ' + m.role | capitalize + ': ' + m.content + '<|end_of_turn|>' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ 'GPT4 Correct Assistant:' }}{%- endif -%})",
     "<|end_of_turn|>"},
    {"phi3", R"({%- for m in messages -%}
{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|assistant|>\n' }}{%- else -%}{{ eos_token }}{%- endif -%})",
     "<|end|>"},
    {"phi4", R"({%- for m in messages -%}
{{ '<|im_start|>' + m.role + '<|im_sep|>' + m.content + '<|im_end|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant<|im_sep|>' }}{%- endif -%})",
     "<|im_end|>"},
    {"vicuna", R"({{ bos_token }}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{{ m.content + ' ' }}
{%- elif m.role == 'user' -%}{{ 'USER: ' + m.content + ' ' }}
{%- else -%}{{ 'ASSISTANT: ' + m.content + eos_token }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ 'ASSISTANT:' }}{%- endif -%})",
     "USER:"},
    {"zephyr", R"({%- for m in messages -%}
{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|assistant|>\n' }}{%- endif -%})",
     "<|user|>"},
};

}  // namespace

std::span<const NamedTemplate> named_templates() { return kTemplates; }

Result<ChosenTemplate> choose_template(const std::string& choice) {
  const auto* const named = std::ranges::find(kTemplates, choice, &NamedTemplate::name);
  if (named != std::end(kTemplates)) {
    return ChosenTemplate{std::string(named->source), std::string(named->stop)};
  }
  const auto has = [&](const char* mark) { return choice.find(mark) != std::string::npos; };
  if (choice.empty() || has("{{") || has("{%")) return ChosenTemplate{choice, {}};
  std::string names;
  for (const NamedTemplate& known : kTemplates) {
    if (!names.empty()) names += ", ";
    names += known.name;
  }
  return tl::unexpected(Status(StatusCode::invalid_argument,
                               "'" + choice + "' is neither Jinja nor one of " + names));
}

}  // namespace infer::chat
