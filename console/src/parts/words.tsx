import type { ReactNode } from 'react'

/*
 * The texts of the shared components. Its modules use them, and nothing else does.
 */

type Text = string | number

export const WORDS = {
  notConnectedButtonWorksAgain: 'Not connected. The button works again when the server answers.',
  notCopiedBrowserRefusedSelect: 'Not copied: the browser refused. Select the text and copy it manually.',
  copied: 'Copied',
  copied2: (label: Text) => `${label}: copied`,
  copyAddress: (title: Text) => `Copy ${title} address`,
  client: 'Client',
  configurationFor: (title: Text) => `Configuration for ${title}`,
  inWord: (place: Text) => `In ${place}`,
  add: (title: ReactNode) => <>Add to {title}</>,
  orRun: (command: ReactNode) => <>Or run {command}. </>,
  before: (after: ReactNode) => <>Before: {after}</>,
  copy: (label: Text) => `Copy ${label}`,
  showAll: 'Show all',
  firstCharacters: (maxCharacters: ReactNode, value: ReactNode) => (
    <>
      The first {maxCharacters} of {value} characters.{' '}
    </>
  ),
  download: 'Download',
  added: 'Added: ',
  removed: 'Removed: ',
  keep: 'Keep it',
  typeConfirm: (typed: ReactNode) => <>Type {typed} to confirm</>,
  typeFirst: (typed: Text) => `Type ${typed} first.`,
  beforeAfter: (where: Text) => `${where}: before and after`,
  inputMono: 'input mono',
  partnotloaded: 'PartNotLoaded',
  thisPartConsoleCouldNot: 'This part of the console could not be loaded.',
  canBeRetried: 'can be retried',
  notReached: 'not reached',
  clear: (label: Text) => `Clear ${label}`,
  loading: (what: Text) => `Loading ${what}`,
  tryAgain: 'Try again',
  of: (done: ReactNode, total: ReactNode) => (
    <>
      {done} of {total}
    </>
  ),
  stop: 'Stop',
  couldNotBeRead: (what: Text) => `${what} could not be read`,
} as const
