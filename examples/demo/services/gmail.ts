import { type ToolContext, ToolError, tool } from 'collet'
import { z } from 'zod'
import { askService } from './ask-service.ts'

/**
 * The Gmail tools of the demo: list and read messages with a token that the user granted. `collet.config.ts` serves
 * them; a test can point them at a local service.
 */

export interface GmailOptions {
  /** Default: Google's own. */
  readonly baseUrl?: string | undefined
}

const MAX_EMAILS = 10

const MESSAGE_LIST = z.object({ messages: z.array(z.object({ id: z.string() })).default([]) })
const MESSAGE = z.object({
  id: z.string(),
  snippet: z.string().default(''),
  payload: z
    .object({ headers: z.array(z.object({ name: z.string(), value: z.string() })).default([]) })
    .optional(),
})
const REFUSAL = z.object({ error: z.object({ message: z.string() }) })

const Email = z.object({ id: z.string(), subject: z.string(), snippet: z.string() })

/** Tools on https://developers.google.com/workspace/gmail/api/reference/rest. */
export function gmailTools({ baseUrl = 'https://gmail.googleapis.com' }: GmailOptions = {}) {
  const mailbox = `${baseUrl.replace(/\/+$/, '')}/gmail/v1/users/me/messages`

  const ask = async <T>(schema: z.ZodType<T>, url: URL, context: ToolContext): Promise<T> => {
    const headers = {
      authorization: `Bearer ${context.token('google').reveal()}`,
      accept: 'application/json',
    }
    const reasonOf = (answer: unknown) => REFUSAL.safeParse(answer).data?.error.message
    const parsed = schema.safeParse(
      await askService({ service: 'Gmail', url, init: { headers }, reasonOf }, context),
    )
    if (parsed.success) return parsed.data
    throw new ToolError('Gmail answered in a form this tool does not know.', {
      developerMessage: parsed.error.message,
    })
  }

  const find = async (query: string | undefined, context: ToolContext) => {
    const url = new URL(mailbox)
    url.searchParams.set('maxResults', String(MAX_EMAILS))
    if (query !== undefined && query !== '') url.searchParams.set('q', query)
    return (await ask(MESSAGE_LIST, url, context)).messages
  }

  const read = async (id: string, context: ToolContext) => {
    const url = new URL(`${mailbox}/${encodeURIComponent(id)}`)
    url.searchParams.set('format', 'metadata')
    url.searchParams.set('metadataHeaders', 'Subject')
    const { snippet, payload } = await ask(MESSAGE, url, context)
    const subject = payload?.headers.find(({ name }) => name.toLowerCase() === 'subject')?.value ?? ''
    return { id, subject, snippet }
  }

  return [
    tool({
      id: 'Gmail.GetEmails@1.2.0',
      description: 'Retrieves emails from Gmail using OAuth 2.0 authentication.',
      input: z.object({ query: z.string().optional().describe('Search query for filtering emails.') }),
      output: z.object({ emails: z.array(Email).describe('List of retrieved emails.') }),
      requirements: {
        authorization: [
          { id: 'google', oauth2: { scopes: ['https://www.googleapis.com/auth/gmail.readonly'] } },
        ],
      },
      policy: {
        safetyTier: 'read',
        replay: 'non-deterministic',
        egress: 'safe-fetch',
        latencyHint: 'medium',
      },
      run: async ({ query }, context) => {
        const found = await find(query, context)
        return { emails: await Promise.all(found.map(({ id }) => read(id, context))) }
      },
    }),
  ]
}
