import type { JournalEvent, JournalHead } from '#core/journal/events'
import { cleanText } from '#core/json'

/** An event as one line: time, type, then its members as `name=value`. */
export function journalLine({ at, type, ...members }: JournalEvent): string {
  const facts = Object.entries(members).map(([name, value]) => `${name}=${factText(value)}`)
  return [new Date(at).toISOString(), type, ...facts].join(' ')
}

function factText(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return /[\s"=]/.test(text) && typeof value === 'string' ? cleanText(JSON.stringify(text)) : cleanText(text)
}

/** `writer:group:link`, to be kept elsewhere and given back to `journal verify --head`. */
export function headText({ writer, group, link }: JournalHead): string {
  return `${writer}:${group}:${link}`
}

export function parseHead(text: string): JournalHead | undefined {
  const [, writer = '', group = '', link = ''] = /^(.+):(\d{1,15}):([^:\s]+)$/.exec(text) ?? []
  return writer === '' ? undefined : { writer, group: Number(group), link }
}
