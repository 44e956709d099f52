import { z } from 'zod'
import { prompt } from '#entries/prompt'
import { resource } from '#entries/resource'
import { skill } from '#entries/skill'
import { ToolError } from '#kernel/base/errors'
import type { DefinedTool } from '#kernel/tool/define'

export const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** The prompts and resources that the official suite asks for by name, and a skill. */
export function suiteEntries(): readonly DefinedTool[] {
  return [
    skill({ id: 'Suite.Report@1.0.0', folder: new URL('./skills/report/', import.meta.url) }),
    prompt({
      id: 'Suite.SimplePrompt@1.0.0',
      name: 'test_simple_prompt',
      description: 'Says one sentence.',
      run: () => 'This is a simple prompt for testing.',
    }),
    prompt({
      id: 'Suite.PromptWithArguments@1.0.0',
      name: 'test_prompt_with_arguments',
      description: 'Repeats its arguments.',
      input: {
        arg1: z.string().describe('First test argument.'),
        arg2: z.string().describe('Second test argument.'),
      },
      complete: { arg1: (value) => ['testValue1', 'other'].filter((known) => known.startsWith(value)) },
      run: ({ arg1, arg2 }) => `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`,
    }),
    prompt({
      id: 'Suite.PromptWithResource@1.0.0',
      name: 'test_prompt_with_embedded_resource',
      description: 'Holds a resource.',
      input: { resourceUri: z.string().describe('Address of the resource.') },
      run: ({ resourceUri: uri }) => [
        {
          role: 'user',
          content: {
            type: 'resource',
            resource: { uri, mimeType: 'text/plain', text: 'Embedded resource content for testing.' },
          },
        },
        { role: 'user', content: 'Please process the embedded resource above.' },
      ],
    }),
    prompt({
      id: 'Suite.PromptWithImage@1.0.0',
      name: 'test_prompt_with_image',
      description: 'Holds a picture.',
      run: () => [
        { role: 'user', content: { type: 'image', data: PNG, mimeType: 'image/png' } },
        { role: 'user', content: 'Please analyze the image above.' },
      ],
    }),
    prompt({
      id: 'Suite.AskingPrompt@1.0.0',
      name: 'test_input_required_result_prompt',
      description: 'Asks for its context.',
      async run(_args, context) {
        const schema = {
          type: 'object',
          properties: { context: { type: 'string' } },
          required: ['context'],
        }
        const message = 'What context should the prompt use?'
        const answer = await context.elicit({ mode: 'form', key: 'user_context', message, schema })
        if (answer.action !== 'accept') throw new ToolError(`The answer was ${answer.action}.`)
        return `Use this context: ${answer.content?.context}`
      },
    }),
    resource({
      id: 'Suite.StaticText@1.0.0',
      uri: 'test://static-text',
      description: 'A text.',
      mimeType: 'text/plain',
      read: () => 'This is the content of the static text resource.',
    }),
    resource({
      id: 'Suite.StaticBinary@1.0.0',
      uri: 'test://static-binary',
      description: 'A picture.',
      mimeType: 'image/png',
      read: () => Buffer.from(PNG, 'base64'),
    }),
    resource({
      id: 'Suite.Watched@1.0.0',
      uri: 'test://watched-resource',
      description: 'Something to subscribe to.',
      mimeType: 'text/plain',
      read: () => 'Nothing new.',
    }),
    resource({
      id: 'Suite.Template@1.0.0',
      uriTemplate: 'test://template/{id}/data',
      description: 'One record by its id.',
      mimeType: 'application/json',
      read: ({ params: { id } }) => JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }),
    }),
  ]
}
