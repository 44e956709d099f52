import type { JsonObject, JsonValue } from '#kernel/base/json'

/*
 * What the official conformance suite expects of a server, as data: tools with their answers; `reference-entries.ts` has prompts
 * and resources. Both reference servers serve it, so the suite tests equal servers of the old and the new era.
 * Invariant: definitions are plain JSON, so a comparison with what passes through Collet needs no SDK.
 */

export const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA='

export const text = (content: string) => ({ type: 'text', text: content }) as const
export const image = { type: 'image', data: PNG, mimeType: 'image/png' } as const
export const embedded = (uri: string, mimeType: string, content: string) =>
  ({ type: 'resource', resource: { uri, mimeType, text: content } }) as const

export type Content =
  | ReturnType<typeof text>
  | typeof image
  | { readonly type: 'audio'; readonly data: string; readonly mimeType: string }
  | ReturnType<typeof embedded>

const EMPTY: JsonObject = { type: 'object', properties: {} }
const oneText = (name: string): JsonObject => ({
  type: 'object',
  properties: { [name]: { type: 'string' } },
  required: [name],
})

/** A request to the client during a call. */
export interface Question {
  readonly key: string
  readonly method: 'elicitation/create' | 'sampling/createMessage' | 'roots/list'
  readonly params: JsonObject
}

type Answers = ReadonlyMap<string, JsonValue>

/** The behaviour of a tool; both servers run every kind. */
type Behaviour =
  | { readonly kind: 'content'; readonly content: readonly Content[] }
  | { readonly kind: 'fails'; readonly message: string }
  | { readonly kind: 'progress' }
  | { readonly kind: 'logs'; readonly messages: readonly string[] }
  | { readonly kind: 'changes'; readonly list: 'tools' | 'prompts' | 'resources' }
  | { readonly kind: 'updates'; readonly uri: string }
  | { readonly kind: 'asks'; readonly asks: Asks }
  | { readonly kind: 'job'; readonly job: Job }

/** Work that takes time, and may ask before or after it. */
export interface Job {
  readonly ms: (input: JsonObject) => number
  readonly asksFirst?: Asks
  readonly asksLater?: Asks
  readonly says: (input: JsonObject) => string
  readonly end: 'result' | 'error result' | 'protocol error'
  /** The server of the old era runs it only as a task; that of the new era has no tasks. */
  readonly needsTask?: boolean
}

/** Rounds of questions; a client without the capability for one gets an error, or is not asked. */
export interface Asks {
  readonly rounds: (input: JsonObject) => readonly (readonly Question[])[]
  readonly done: (answers: Answers) => string
  /** Leaves out what the client cannot answer. */
  readonly isLenient?: boolean
}

export interface ReferenceTool {
  readonly definition: {
    readonly name: string
    readonly description: string
    readonly inputSchema: JsonObject
    readonly _meta?: JsonObject
  }
  readonly behaviour: Behaviour
}

function tool(name: string, behaviour: Behaviour, inputSchema: JsonObject = EMPTY): ReferenceTool {
  return { definition: { name, description: `For the scenario of ${name}.`, inputSchema }, behaviour }
}

/** A tool whose result is shown on a page. */
function app(name: string, visibility: readonly string[]): ReferenceTool {
  const { definition, behaviour } = shows(name, text('3, 5, 8'))
  return {
    definition: { ...definition, _meta: { ui: { resourceUri: APP_PAGE, visibility: [...visibility] } } },
    behaviour,
  }
}

export const APP_PAGE = 'ui://reference/chart.html'

const shows = (name: string, ...content: readonly Content[]) => tool(name, { kind: 'content', content })

function form(key: string, message: string, requestedSchema: JsonObject): Question {
  return { key, method: 'elicitation/create', params: { message, requestedSchema } }
}

export const field = (key: string, message: string, name: string, type = 'string') =>
  form(key, message, { type: 'object', properties: { [name]: { type } }, required: [name] })

const sampling = (key: string, prompt: string): Question => ({
  key,
  method: 'sampling/createMessage',
  params: { messages: [{ role: 'user', content: text(prompt) }], maxTokens: 100 },
})

const ROOTS: Question = { key: 'client_roots', method: 'roots/list', params: {} }
const NAME = field('user_name', 'What is your name?', 'name')
const CONFIRM = field('confirm', 'Please confirm', 'ok', 'boolean')

function asks(
  name: string,
  rounds: Asks['rounds'],
  say: string | ((answers: Answers) => string) = 'Answered:',
  more: { readonly input?: JsonObject; readonly isLenient?: boolean } = {},
): ReferenceTool {
  const done =
    typeof say === 'string'
      ? (answers: Answers) => `${say} ${JSON.stringify(Object.fromEntries(answers))}`
      : say
  const { input = EMPTY, isLenient = false } = more
  return tool(name, { kind: 'asks', asks: { rounds, done, isLenient } }, input)
}

const PERSON: JsonObject = {
  type: 'object',
  properties: {
    username: { type: 'string', description: "User's response" },
    email: { type: 'string', description: "User's email address" },
  },
  required: ['username', 'email'],
}

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
const THREE = [titled('value1', 'First'), titled('value2', 'Second'), titled('value3', 'Third')]
const OPTIONS = ['option1', 'option2', 'option3']
const ENUMS: JsonObject = {
  type: 'object',
  properties: {
    untitledSingle: { type: 'string', enum: OPTIONS },
    titledSingle: { type: 'string', oneOf: THREE },
    legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['One', 'Two', 'Three'] },
    untitledMulti: { type: 'array', items: { type: 'string', enum: OPTIONS } },
    titledMulti: { type: 'array', items: { anyOf: THREE } },
  },
}

/** The schema that the suite expects back, keyword by keyword. */
const RICH_INPUT: JsonObject = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
}

const HEADER_INPUT: JsonObject = {
  type: 'object',
  properties: { region: { type: 'string', 'x-mcp-header': 'Region' } },
  required: ['region'],
}

const JOB_MS = 1_000

function job(
  name: string,
  { input = EMPTY, ...how }: Partial<Job> & { readonly input?: JsonObject } = {},
): ReferenceTool {
  return tool(
    name,
    { kind: 'job', job: { ms: () => JOB_MS, says: () => 'The job is done.', end: 'result', ...how } },
    input,
  )
}

const ask = (...questions: readonly Question[]): Asks => ({
  rounds: () => [questions],
  done: (answers) => JSON.stringify(Object.fromEntries(answers)),
})

/** The tools that the scenarios of tasks call. */
const JOBS: readonly ReferenceTool[] = [
  job('greet', { input: oneText('name'), ms: () => 0, says: ({ name }) => `Hello, ${String(name)}!` }),
  job('slow_compute', {
    input: { type: 'object', properties: { seconds: { type: 'number' } }, required: ['seconds'] },
    ms: ({ seconds }) => Number(seconds) * 1_000,
  }),
  job('failing_job', { end: 'error result', needsTask: true }),
  job('protocol_error_job', { end: 'protocol error' }),
  job('confirm_delete', { asksLater: ask(field('delete', 'Delete it?', 'confirm', 'boolean')) }),
  job('multi_input', {
    asksLater: ask(field('first', 'Who asks?', 'name'), field('second', 'Who answers?', 'name')),
  }),
  job('test_tool_with_task', { asksFirst: ask(NAME), needsTask: true }),
]

function greeting(answers: Answers): string {
  const answer = answers.get('user_name')
  return `Hello, ${JSON.stringify(answer)}`
}

export const REFERENCE_TOOLS: readonly ReferenceTool[] = [
  shows('test_simple_text', text('This is a simple text response for testing.')),
  shows('test_image_content', image),
  shows('test_audio_content', { type: 'audio', data: WAV, mimeType: 'audio/wav' }),
  shows(
    'test_embedded_resource',
    embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.'),
  ),
  shows(
    'test_multiple_content_types',
    text('Multiple content types test:'),
    image,
    embedded('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}'),
  ),
  tool('test_error_handling', {
    kind: 'fails',
    message: 'This tool intentionally returns an error for testing',
  }),
  tool('test_tool_with_progress', { kind: 'progress' }),
  tool('test_tool_with_logging', {
    kind: 'logs',
    messages: ['Tool execution started', 'Tool processing data', 'Tool execution completed'],
  }),
  tool('test_logging_tool', { kind: 'logs', messages: ['One message'] }),
  tool('test_trigger_tool_change', { kind: 'changes', list: 'tools' }),
  tool('test_trigger_prompt_change', { kind: 'changes', list: 'prompts' }),
  tool('test_trigger_resource_change', { kind: 'changes', list: 'resources' }),
  tool('test_update_resource', { kind: 'updates', uri: 'test://watched-resource' }),
  tool('json_schema_2020_12_tool', { kind: 'content', content: [text('Fits.')] }, RICH_INPUT),
  tool('test_header_parameter', { kind: 'content', content: [text('Routed.')] }, HEADER_INPUT),
  asks('test_sampling', ({ prompt }) => [[sampling('answer', String(prompt))]], 'LLM response:', {
    input: oneText('prompt'),
  }),
  asks('test_elicitation', ({ message }) => [[form('person', String(message), PERSON)]], 'User response:', {
    input: oneText('message'),
  }),
  asks(
    'test_elicitation_sep1034_defaults',
    () => [[form('all', 'Check these', DEFAULTS)]],
    'Elicitation completed:',
  ),
  asks('test_elicitation_sep1330_enums', () => [[form('all', 'Choose', ENUMS)]], 'Elicitation completed:'),
  asks('test_missing_capability', () => [[sampling('need', 'Hello')]]),
  asks('test_streaming_elicitation', () => [[NAME]]),
  asks('test_input_required_result_elicitation', () => [[NAME]], greeting),
  asks('test_input_required_result_sampling', () => [
    [sampling('capital_question', 'What is the capital of France?')],
  ]),
  asks('test_input_required_result_list_roots', () => [[ROOTS]]),
  asks(
    'test_input_required_result_request_state',
    () => [[CONFIRM]],
    () => 'state-ok',
  ),
  asks(
    'test_input_required_result_tampered_state',
    () => [[CONFIRM]],
    () => 'state-ok',
  ),
  asks('test_input_required_result_multiple_inputs', () => [
    [NAME, sampling('greeting', 'Generate a greeting'), ROOTS],
  ]),
  asks('test_input_required_result_multi_round', () => [
    [field('step1', 'Step 1: What is your name?', 'name')],
    [field('step2', 'Step 2: What is your favorite color?', 'color')],
  ]),
  asks(
    'test_input_required_result_capabilities',
    () => [[sampling('greeting', 'Generate a greeting'), NAME]],
    'Answered:',
    { isLenient: true },
  ),
  ...JOBS,
  app('show_chart', ['model', 'app']),
  app('refresh_chart', ['app']),
]
