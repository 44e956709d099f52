import { type createGateway, tool } from 'collet'
import { z } from 'zod'

/** Tools whose effects a test counts. */
export interface Shop {
  readonly tools: NonNullable<Parameters<typeof createGateway>[0]['tools']>
  /** Effects in the order in which they happened. */
  readonly effects: string[]
}

const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

export function makeShop(onEffect: (effect: string) => Promise<void> | void = () => undefined): Shop {
  const effects: string[] = []
  const act = async (effect: string): Promise<string> => {
    effects.push(effect)
    await onEffect(effect)
    return `done: ${effect}`
  }
  const mail = tool({
    id: 'Shop.Mail@1.0.0',
    description: 'Sends a mail.',
    input: { to: z.string().describe('Address.'), text: z.string().describe('Text.').optional() },
    output: z.string(),
    run: ({ to, text = '' }) => act(`mail ${to} ${text}`.trim()),
  })
  const pay = tool({
    id: 'Shop.Pay@1.0.0',
    description: 'Pays an invoice.',
    input: { invoice_id: z.string().describe('Invoice.'), memo: z.string().describe('Memo.') },
    output: z.string(),
    policy: { identity: ['invoice_id'] },
    run: ({ invoice_id, memo }) => act(`pay ${invoice_id} ${memo}`),
  })
  const refund = tool({
    id: 'Shop.Refund@1.0.0',
    description: 'Refunds an order.',
    input: { order: z.string().describe('Order.') },
    output: z.string(),
    policy: { approval: 'always' },
    run: ({ order }) => act(`refund ${order}`),
  })
  const read = tool({
    id: 'Shop.Orders@1.0.0',
    description: 'Lists orders.',
    input: {},
    output: z.object({ orders: z.array(z.object({ id: z.number(), note: z.string() })) }),
    policy: { safetyTier: 'read' },
    run: () => ({
      orders: Array.from({ length: 2000 }, (_, id) => ({ id, note: 'A long note. '.repeat(20) })),
    }),
  })
  const photo = tool({
    id: 'Shop.Photo@1.0.0',
    description: 'Shows a photo.',
    input: {},
    policy: { safetyTier: 'read' },
    output: {},
    run: () => ({
      content: [
        { type: 'text', text: 'The shop:' },
        { type: 'image', data: PIXEL, mimeType: 'image/png' },
      ],
    }),
  })
  const fail = tool({
    id: 'Shop.Fail@1.0.0',
    description: 'Fails.',
    input: {},
    output: z.string(),
    run: () => {
      throw new Error('a secret detail')
    },
  })
  return { tools: [mail, pay, refund, read, photo, fail], effects }
}
