/*
 * The texts of saved views. Only this folder uses them.
 */

export const WORDS = {
  views: 'Views',
  save: 'Save this view…',
  saveTitle: 'Save this view',
  explanation:
    'Filters and order are kept in this browser until you sign out. To share a view, copy its address.',
  name: 'Name',
  nameMissing: 'Enter a name.',
  cancel: 'Cancel',
  saveButton: 'Save view',
  copyAddress: 'Copy the address',
  remove: (name: string) => `Remove "${name}"`,
} as const
