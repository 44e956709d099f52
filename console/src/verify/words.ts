/*
 * The texts of the page that verifies receipts.
 */

export const words = {
  title: 'Verify a receipt',
  intro:
    'Choose a receipt file. It is checked in this page, and nothing of it is sent anywhere. You need no account.',
  choose: 'Choose a file',
  drop: 'or drop it here',
  checking: (calls: number) => `Checking… ${calls} calls so far`,
  cannot:
    'This browser cannot check Ed25519 signatures here. Open this page over HTTPS in a current browser, or use the command: collet verify FILE --key KEY',
  valid: 'The file is unchanged',
  invalid: 'The file is not valid',
  unread: 'The file could not be read.',
  proves: (calls: number) => (calls === 1 ? 'It proves 1 call.' : `It proves ${calls} calls.`),
  madeBy: 'Made by',
  madeAt: 'Made at',
  key: 'Signed with the key',
  keyOfServer: 'This server publishes this key.',
  keyRetired: 'This server published this key until it was replaced. The file was made before.',
  keyMisused: 'This server replaced this key before the file was made.',
  keyForeign:
    'This server does not publish this key. Compare it with the key of the server that made the file.',
  blocks: 'Blocks of the journal',
  call: 'Call',
  tool: 'Tool',
  definition: 'Definition',
  caller: 'Caller',
  tenant: 'Tenant',
  callId: 'Call ID',
  user: 'User',
  input: 'Input',
  outcome: 'Outcome',
  digestOnly: 'not disclosed; salted digest',
  events: 'What happened',
  more: (count: number) => `and ${count} more calls. The command collet verify FILE --json lists all.`,
  notProven: 'What is not proven',
  limits: [
    'That the server recorded the truth, and every call.',
    'That the journal was not rewritten before this file was made. Keep a receipt, and compare later ones with collet verify --after.',
    'Anything about other calls: the file contains none of them.',
  ],
} as const
