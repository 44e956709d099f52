import { type Secret, ToolError, tool } from 'collet'
import { z } from 'zod'
import { askService } from './ask-service.ts'

/**
 * The SMS tool of the demo, on the API of Twilio. `collet.config.ts` serves it; a test can point it at a local
 * service.
 */

export interface SmsOptions {
  /** Default: Twilio's own. */
  readonly baseUrl?: string | undefined
  /** Required unless the secret itself names the account. */
  readonly accountSid?: string | undefined
  /** Sender: one of the account's phone numbers. */
  readonly from?: string | undefined
}

interface Credential {
  readonly accountSid: string
  readonly user: string
  readonly password: string
}

const MESSAGE = z.object({ status: z.string() })
const REFUSAL = z.object({ code: z.number().optional(), message: z.string() })

/** Tools on https://www.twilio.com/docs/messaging/api/message-resource. */
export function smsTools({ baseUrl = 'https://api.twilio.com', accountSid, from }: SmsOptions = {}) {
  return [
    tool({
      id: 'SMS.Send@0.1.2',
      description: 'Sends SMS messages using Twilio. Requires a valid TWILIO_API_KEY.',
      input: z.object({
        to: z.string().describe('Recipient phone number.'),
        message: z.string().describe('Message content to send.'),
      }),
      output: z.object({ status: z.string().describe('Status of the SMS sending operation.') }),
      requirements: { secrets: [{ id: 'TWILIO_API_KEY' }] },
      policy: {
        safetyTier: 'write',
        replay: 'non-deterministic',
        egress: 'safe-fetch',
        latencyHint: 'medium',
      },
      run: async ({ to, message }, context) => {
        const credential = readCredential(context.secret('TWILIO_API_KEY'), accountSid)
        const account = encodeURIComponent(credential.accountSid)
        const answer = await askService(
          {
            service: 'Twilio',
            url: new URL(`${baseUrl.replace(/\/+$/, '')}/2010-04-01/Accounts/${account}/Messages.json`),
            init: {
              method: 'POST',
              headers: { authorization: basic(credential), accept: 'application/json' },
              body: new URLSearchParams({ To: to, From: sender(from), Body: message }),
            },
            reasonOf: describeRefusal,
          },
          context,
        )
        const parsed = MESSAGE.safeParse(answer)
        if (parsed.success) return { status: parsed.data.status }
        throw new ToolError(
          'Twilio took the message, but its answer has no status. Check there before sending again.',
          {
            developerMessage: parsed.error.message,
          },
        )
      },
    }),
  ]
}

/** `ACxxx:token`, `SKxxx:secret` with a configured account, or that account's token alone. */
function readCredential(secret: Secret, configured: string | undefined): Credential {
  const text = secret.reveal()
  const colon = text.indexOf(':')
  const user = colon === -1 ? configured : text.slice(0, colon)
  const accountSid = user?.startsWith('AC') === true ? user : configured
  if (user !== undefined && accountSid !== undefined) {
    return { accountSid, user, password: text.slice(colon + 1) }
  }
  throw new ToolError('The Twilio credential is incomplete.', {
    developerMessage:
      'Give TWILIO_API_KEY as "ACCOUNT_SID:AUTH_TOKEN", or set TWILIO_ACCOUNT_SID on the server.',
  })
}

function basic({ user, password }: Credential): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}

function sender(from: string | undefined): string {
  if (from !== undefined) return from
  throw new ToolError('Sending SMS is not set up on this server.', {
    developerMessage: 'Set TWILIO_FROM to a phone number of the Twilio account.',
  })
}

function describeRefusal(answer: unknown): string | undefined {
  const { data } = REFUSAL.safeParse(answer)
  return data === undefined ? undefined : `${data.code ?? 'no code'} ${data.message}`
}
