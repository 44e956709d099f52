import type { Elicitation, ElicitationAnswer } from '#kernel/base/elicitation'
import { ToolError } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import { type DefinedTool, tool } from '#kernel/tool/define'
import type { ToolContext } from '#kernel/tool/tool'

type Ask = (question: Elicitation) => Promise<ElicitationAnswer & { readonly action: 'accept' }>

const text = (content: string) => ({ content: [{ type: 'text', text: content }] })

/** Returns the function that asks the caller; these tools cannot continue without it. */
function askOf(context: ToolContext): Ask {
  return async (question) => {
    const answer = await context.elicit(question)
    if (answer.action === 'accept') return answer
    throw new ToolError(`The answer was ${answer.action}.`)
  }
}

function asking(
  name: string,
  run: (ask: Ask, input: JsonObject) => Promise<JsonObject>,
  input: JsonObject = {},
): DefinedTool {
  return tool({
    id: `Asking.${name}@1.0.0`,
    name,
    description: `Asks what ${name} is about.`,
    input,
    output: {},
    policy: { safetyTier: 'read' },
    run: (given, context) => run(askOf(context), given),
  })
}

function form(key: string, message: string, field: string, type = 'string'): Elicitation {
  const schema = { type: 'object', properties: { [field]: { type } }, required: [field] }
  return { mode: 'form', key, message, schema }
}

function sampling(key: string, prompt: string): Elicitation {
  const messages = [{ role: 'user', content: { type: 'text', text: prompt } }]
  return { mode: 'sampling', key, params: { messages, maxTokens: 100 } }
}

const name = (key: string, message = 'What is your name?') => form(key, message, 'name')
const one = (parameter: string): JsonObject => ({
  type: 'object',
  properties: { [parameter]: { type: 'string', description: 'What to ask.' } },
  required: [parameter],
})

const DEFAULTS: JsonObject = {
  type: 'object',
  properties: {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
  },
}

const titled = (value: string, title: string) => ({ const: value, title })
const ENUMS: JsonObject = {
  type: 'object',
  properties: {
    untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
    titledSingle: {
      type: 'string',
      oneOf: [titled('value1', 'First'), titled('value2', 'Second'), titled('value3', 'Third')],
    },
    legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['One', 'Two', 'Three'] },
    untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
    titledMulti: {
      type: 'array',
      items: { anyOf: [titled('value1', 'First'), titled('value2', 'Second'), titled('value3', 'Third')] },
    },
  },
}

const PERSON: JsonObject = {
  type: 'object',
  properties: {
    username: { type: 'string', description: "User's response" },
    email: { type: 'string', description: "User's email address" },
  },
  required: ['username', 'email'],
}

/** Tools of the suite that ask their caller, with equal code for every revision. */
export function askingTools(): readonly DefinedTool[] {
  const form2 = (key: string, message: string, schema: JsonObject): Elicitation => ({
    mode: 'form',
    key,
    message,
    schema,
  })
  const confirmed = async (ask: Ask) => {
    await ask(form('confirm', 'Please confirm', 'ok', 'boolean'))
    return text('state-ok')
  }
  return [
    asking(
      'test_sampling',
      async (ask, { prompt }) =>
        text(`LLM response: ${JSON.stringify(await ask(sampling('answer', String(prompt))))}`),
      one('prompt'),
    ),
    asking(
      'test_elicitation',
      async (ask, { message }) =>
        text(`User response: ${JSON.stringify(await ask(form2('person', String(message), PERSON)))}`),
      one('message'),
    ),
    asking('test_elicitation_sep1034_defaults', async (ask) =>
      text(`Elicitation completed: ${JSON.stringify(await ask(form2('all', 'Check these', DEFAULTS)))}`),
    ),
    asking('test_elicitation_sep1330_enums', async (ask) =>
      text(`Elicitation completed: ${JSON.stringify(await ask(form2('all', 'Choose', ENUMS)))}`),
    ),
    asking('test_missing_capability', async (ask) =>
      text(JSON.stringify(await ask(sampling('need', 'Hello')))),
    ),
    asking('test_streaming_elicitation', async (ask) => text(JSON.stringify(await ask(name('user_name'))))),
    asking('test_input_required_result_elicitation', async (ask) => {
      const { content } = await ask(name('user_name'))
      return text(`Hello, ${String(content?.name)}!`)
    }),
    asking('test_input_required_result_sampling', async (ask) =>
      text(JSON.stringify(await ask(sampling('capital_question', 'What is the capital of France?')))),
    ),
    asking('test_input_required_result_list_roots', async (ask) =>
      text(JSON.stringify(await ask({ mode: 'roots', key: 'client_roots' }))),
    ),
    asking('test_input_required_result_request_state', confirmed),
    asking('test_input_required_result_tampered_state', confirmed),
    asking('test_input_required_result_multiple_inputs', async (ask) =>
      text(
        JSON.stringify(
          await Promise.all([
            ask(name('user_name')),
            ask(sampling('greeting', 'Generate a greeting')),
            ask({ mode: 'roots', key: 'client_roots' }),
          ]),
        ),
      ),
    ),
    asking('test_input_required_result_multi_round', async (ask) => {
      const first = await ask(name('step1', 'Step 1: What is your name?'))
      const second = await ask(form('step2', 'Step 2: What is your favorite color?', 'color'))
      return text(JSON.stringify([first, second]))
    }),
    asking('test_input_required_result_capabilities', async (ask) =>
      text(
        JSON.stringify(
          await Promise.allSettled([
            ask(sampling('greeting', 'Generate a greeting')),
            ask(name('user_name')),
          ]),
        ),
      ),
    ),
  ]
}
