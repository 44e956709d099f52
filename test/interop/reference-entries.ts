import { APP_PAGE, type Asks, type Content, embedded, field, image, PNG, text } from './reference-fixture.ts'

/*
 * The prompts, resources, templates and completions of the reference servers. Both servers serve them.
 */

interface PromptMessage {
  readonly role: 'user'
  readonly content: Content
}

interface ReferencePrompt {
  readonly definition: {
    readonly name: string
    readonly description: string
    readonly arguments?: { readonly name: string; readonly description: string; readonly required: boolean }[]
  }
  readonly messages: (args: Readonly<Record<string, string>>) => readonly PromptMessage[]
  /** A question that is answered before the prompt is complete. */
  readonly asks?: Asks
}

const user = (content: Content): PromptMessage => ({ role: 'user', content })
const argument = (name: string) => ({ name, description: `The argument ${name}.`, required: true })

export const REFERENCE_PROMPTS: readonly ReferencePrompt[] = [
  {
    definition: { name: 'test_simple_prompt', description: 'Has no arguments.' },
    messages: () => [user(text('This is a simple prompt for testing.'))],
  },
  {
    definition: {
      name: 'test_prompt_with_arguments',
      description: 'Has two arguments.',
      arguments: [argument('arg1'), argument('arg2')],
    },
    messages: ({ arg1, arg2 }) => [user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))],
  },
  {
    definition: {
      name: 'test_prompt_with_embedded_resource',
      description: 'Embeds a resource.',
      arguments: [argument('resourceUri')],
    },
    messages: ({ resourceUri = '' }) => [
      user(embedded(resourceUri, 'text/plain', 'Embedded resource content for testing.')),
      user(text('Please process the embedded resource above.')),
    ],
  },
  {
    definition: { name: 'test_prompt_with_image', description: 'Shows an image.' },
    messages: () => [user(image), user(text('Please analyze the image above.'))],
  },
  {
    definition: { name: 'test_input_required_result_prompt', description: 'Asks before it is complete.' },
    messages: () => [user(text('Use the context of the answer.'))],
    asks: {
      rounds: () => [[field('user_context', 'What context should the prompt use?', 'context')]],
      done: () => '',
    },
  },
]

export const REFERENCE_RESOURCES = [
  {
    uri: 'test://static-text',
    name: 'static-text',
    description: 'A text that stays the same.',
    mimeType: 'text/plain',
  },
  {
    uri: 'test://static-binary',
    name: 'static-binary',
    description: 'An image that stays the same.',
    mimeType: 'image/png',
  },
  {
    uri: 'test://watched-resource',
    name: 'watched-resource',
    description: 'A resource that clients watch.',
    mimeType: 'text/plain',
  },
  {
    uri: APP_PAGE,
    name: 'chart',
    description: 'The page of show_chart.',
    mimeType: 'text/html;profile=mcp-app',
  },
]

export const REFERENCE_TEMPLATES = [
  {
    uriTemplate: 'test://template/{id}/data',
    name: 'template',
    description: 'Data by id.',
    mimeType: 'application/json',
  },
]

/** `undefined` for an unknown address. */
export function readReference(uri: string) {
  if (uri === 'test://static-text')
    return { uri, mimeType: 'text/plain', text: 'This is the content of the static text resource.' }
  if (uri === 'test://static-binary') return { uri, mimeType: 'image/png', blob: PNG }
  if (uri === 'test://watched-resource') return { uri, mimeType: 'text/plain', text: 'Watched.' }
  if (uri === APP_PAGE)
    return {
      uri,
      mimeType: 'text/html;profile=mcp-app',
      text: '<!doctype html><title>Chart</title><p>3, 5, 8</p>',
      _meta: {
        ui: { csp: { connectDomains: ['https://example.com'] }, permissions: { clipboardWrite: {} } },
      },
    }
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1]
  if (id === undefined) return undefined
  const data = { id, templateTest: true, data: `Data for ID: ${id}` }
  return { uri, mimeType: 'application/json', text: JSON.stringify(data) }
}

const WORDS = ['paris', 'park', 'party', 'hello']

export function completeReference(value: string) {
  const values = WORDS.filter((word) => word.startsWith(value))
  return { values, total: values.length, hasMore: false }
}
