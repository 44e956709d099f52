import { prompt, resource } from 'collet'
import { z } from 'zod'

const TOPICS = new Map([
  ['calls', '# Calls\n\nEvery call is recorded before it runs, and its outcome is kept.'],
  ['approvals', '# Approvals\n\nA person can be asked before a call runs.'],
])

/** MCP clients show it in a menu. */
export const explain = prompt({
  id: 'Guide.Explain@1.0.0',
  title: 'Explain a topic',
  description: 'Asks for an explanation of one topic of this server.',
  input: { topic: z.enum(['calls', 'approvals']).describe('What to explain.') },
  run: ({ topic }) => [
    {
      role: 'user',
      content: {
        type: 'resource',
        resource: { uri: `guide://${topic}`, mimeType: 'text/markdown', text: TOPICS.get(topic) ?? '' },
      },
    },
    { role: 'user', content: 'Explain this to a newcomer, with one example.' },
  ],
})

/** MCP clients can add a topic to a conversation. */
export const topic = resource({
  id: 'Guide.Topic@1.0.0',
  uriTemplate: 'guide://{topic}',
  description: 'One topic of the guide.',
  mimeType: 'text/markdown',
  complete: { topic: (value) => [...TOPICS.keys()].filter((name) => name.startsWith(value)) },
  read: ({ params }) => TOPICS.get(params.topic),
})
