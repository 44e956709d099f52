import { setTimeout as wait } from 'node:timers/promises'
import { ToolError } from '#kernel/base/errors'
import type { JsonObject } from '#kernel/base/json'
import type { CatalogChanges } from '#kernel/tool/catalog-changes'
import { type DefinedTool, tool } from '#kernel/tool/define'
import { askingTools } from './mcp-asking-tools.ts'
import { PNG, suiteEntries } from './mcp-suite-entries.ts'
import { taskTools } from './mcp-task-tools.ts'

const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA='

const text = (content: string): JsonObject => ({ type: 'text', text: content })
const image: JsonObject = { type: 'image', data: PNG, mimeType: 'image/png' }
const audio: JsonObject = { type: 'audio', data: WAV, mimeType: 'audio/wav' }
const resource = (uri: string, content: string): JsonObject => ({
  type: 'resource',
  resource: { uri, mimeType: 'text/plain', text: content },
})

function showing(id: string, name: string, content: readonly JsonObject[]): DefinedTool {
  return tool({
    id: `Suite.${id}@1.0.0`,
    name,
    description: `Shows what ${name} is about.`,
    input: {},
    output: {},
    policy: { safetyTier: 'pure' },
    run: () => ({ content }),
  })
}

/** The schema that the suite expects back, keyword by keyword. */
const RICH_INPUT = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object',
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      description: 'Where.',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string', description: 'Who.' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'], description: 'How.' },
    phone: { type: 'string', description: 'Number.' },
    email: { type: 'string', description: 'Address.' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
} as const

/** The tools, prompts and resources that the official suite uses by name. */
export function suiteTools(changes: CatalogChanges): readonly DefinedTool[] {
  return [
    showing('SimpleText', 'test_simple_text', [text('This is a simple text response for testing.')]),
    showing('Image', 'test_image_content', [image]),
    showing('Audio', 'test_audio_content', [audio]),
    showing('Resource', 'test_embedded_resource', [
      resource('test://embedded-resource', 'This is an embedded resource content.'),
    ]),
    showing('Mixed', 'test_multiple_content_types', [
      text('Multiple content types test:'),
      image,
      resource('test://mixed-content-resource', '{"test":"data","value":123}'),
    ]),
    tool({
      id: 'Suite.Fails@1.0.0',
      name: 'test_error_handling',
      description: 'Fails always.',
      input: {},
      output: {},
      policy: { safetyTier: 'pure' },
      run: () => {
        throw new ToolError('This tool intentionally returns an error for testing')
      },
    }),
    tool({
      id: 'Suite.Progress@1.0.0',
      name: 'test_tool_with_progress',
      description: 'Reports its progress.',
      input: {},
      output: {},
      policy: { safetyTier: 'pure' },
      async run(_input, context) {
        for (const done of [0, 50, 100]) {
          context.progress(done, 100)
          await wait(20)
        }
        return { content: [text('Done.')] }
      },
    }),
    tool({
      id: 'Suite.Rich@1.0.0',
      name: 'json_schema_2020_12_tool',
      description: 'Tool with JSON Schema 2020-12 features',
      input: RICH_INPUT,
      output: {},
      policy: { safetyTier: 'pure' },
      run: () => ({ content: [text('Fits.')] }),
    }),
    tool({
      id: 'Suite.Header@1.0.0',
      name: 'test_header_parameter',
      description: 'Has a parameter that a header repeats.',
      input: {
        type: 'object',
        properties: { region: { type: 'string', description: 'Where.', 'x-mcp-header': 'Region' } },
        required: ['region'],
      },
      output: {},
      policy: { safetyTier: 'pure' },
      run: () => ({ content: [text('Routed.')] }),
    }),
    tool({
      id: 'Suite.Logs@1.0.0',
      name: 'test_logging_tool',
      description: 'Logs while it runs, to the server’s own log and to the client.',
      input: {},
      output: {},
      policy: { safetyTier: 'pure' },
      run(_input, { log, message }) {
        log.debug({}, 'the suite must not find this')
        message('info', 'One message')
        return { content: [text('Logged.')] }
      },
    }),
    tool({
      id: 'Suite.Messages@1.0.0',
      name: 'test_tool_with_logging',
      description: 'Sends three messages to the client while it runs.',
      input: {},
      output: {},
      policy: { safetyTier: 'pure' },
      run(_input, { message }) {
        for (const content of ['Tool execution started', 'Tool processing data', 'Tool execution completed'])
          message('info', content)
        return { content: [text('Logged.')] }
      },
    }),
    ...['Tool', 'Prompt'].map((what) =>
      tool({
        id: `Suite.${what}Change@1.0.0`,
        name: `test_trigger_${what.toLowerCase()}_change`,
        description: 'Notifies that the lists have changed.',
        input: {},
        output: {},
        policy: { safetyTier: 'write' },
        run() {
          changes.notify()
          return { content: [text('Changed.')] }
        },
      }),
    ),
    ...askingTools(),
    ...suiteEntries(),
    ...taskTools(),
  ]
}
