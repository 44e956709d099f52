import type { Webhook } from '#config/webhooks'

/*
 * Formats notices for Slack and Microsoft Teams. Used by `messages.ts`.
 * Invariant: callers' text cannot become a link, a mention or markup.
 */

/** The content of a chat message, and its link. */
export interface ChatNotice {
  readonly title: string
  readonly facts: readonly (readonly [name: string, value: string])[]
  /** Preformatted text. */
  readonly detail?: string
  readonly action?: { readonly label: string; readonly url: string }
}

/** The body of an incoming webhook of a chat. Callers' text is never a link, a mention or a heading. */
export function chatMessage(format: Exclude<Webhook['format'], 'json'>, notice: ChatNotice): string {
  return JSON.stringify(format === 'slack' ? slackMessage(notice) : teamsMessage(notice))
}

/** Maximum length of a part; Slack refuses a message with a longer part. */
const MAX_PART_LENGTH = 2_900

function slackMessage({ title, facts, detail, action }: ChatNotice) {
  const lines = facts.map(([name, value]) => `${name}: ${value}`).join('\n')
  return {
    // This text is shown in notifications, which have no blocks.
    text: escaped(title),
    blocks: [
      { type: 'section', text: { type: 'plain_text', text: shortened(`${title}\n${lines}`), emoji: false } },
      ...(detail === undefined ? [] : [preformatted(detail)]),
      ...(action === undefined ? [] : [button(action)]),
    ],
  }
}

function preformatted(detail: string) {
  const text = { type: 'text', text: shortened(detail) }
  return { type: 'rich_text', elements: [{ type: 'rich_text_preformatted', elements: [text] }] }
}

function button({ label, url }: NonNullable<ChatNotice['action']>) {
  const text = { type: 'plain_text', text: label, emoji: false }
  return { type: 'actions', elements: [{ type: 'button', text, url }] }
}

/** Slack reads these as the beginning of links and mentions. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

/** A message with a card, for Teams workflows. The card's text runs are not read as Markdown. */
function teamsMessage({ title, facts, detail, action }: ChatNotice) {
  const run = (text: string, more: object = {}) => ({
    type: 'RichTextBlock',
    inlines: [{ type: 'TextRun', text: shortened(text), ...more }],
  })
  return {
    type: 'message',
    attachments: [
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        content: {
          $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
          type: 'AdaptiveCard',
          version: '1.4',
          body: [
            run(title, { weight: 'Bolder' }),
            ...facts.map(([name, value]) => run(`${name}: ${value}`)),
            ...(detail === undefined ? [] : [run(detail, { fontType: 'Monospace' })]),
          ],
          ...(action === undefined
            ? {}
            : { actions: [{ type: 'Action.OpenUrl', title: action.label, url: action.url }] }),
        },
      },
    ],
  }
}

function shortened(text: string): string {
  return text.length <= MAX_PART_LENGTH ? text : `${text.slice(0, MAX_PART_LENGTH).toWellFormed()}…`
}
