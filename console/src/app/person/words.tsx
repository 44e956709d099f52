import type { ReactNode } from 'react'

/*
 * The texts of the account menu and sign-in. Its modules use them, and nothing else does.
 */

type Text = string | number

export const WORDS = {
  notSignedIn: 'Not signed in',
  jump: 'Jump to…',
  switchTheme: 'Switch theme',
  keyboardShortcuts: 'Keyboard shortcuts',
  signIn: 'Sign in',
  signOut: 'Sign out',
  readOnly: 'Read-only',
  signInContinue: 'Sign in to continue',
  tenant: (role: Text, tenant: Text) => `${role} · tenant ${tenant}`,
  callersCouldNotBeRead: 'The callers could not be read',
  runAs: 'Run as',
  access: 'Access',
  noCallerHasValidKey: (link: ReactNode) => <>No caller has a valid key. Create a key in {link}.</>,
  permissionsLimitsApprovalsAreThose:
    'Permissions, limits and approvals are those of this caller. Its stored credentials are not used. The call is recorded as run by the operator.',
  chooseCaller: 'Choose a caller',
  signInWithKey: 'Sign in with a key',
  chooseCallerRunToolAs: 'Choose the caller to run the tool as.',
  signInSeeThis: 'Sign in to see this',
  callsApprovalsConnectionsSettingsNeed: 'Calls, approvals, connections and settings need a sign-in.',
  thisServerRequiresSignIn: 'This server requires a sign-in.',
  yourSessionHasEnded: 'Your session has ended',
  nothingOnThisPageLost: 'Nothing on this page is lost. Sign in to continue.',
  unknownKeyMayHaveBeen: 'Unknown key. It may have been revoked.',
  signInWith: (oidc: ReactNode) => <>Sign in with {oidc}</>,
  pasteKeyFirst: 'Paste a key first.',
  apiKey: 'API key',
  orStartToken: 'or the start token',
  signInWithKey2: 'Sign in with the key',
  didYouStartThisServer:
    'Did you start this server? It printed a link that signs you in as its operator. This command prints a new one:',
  command: 'command',
} as const
