// The address behind `#` says which page is shown, so that each can be linked to.

/** "#/q/mail/job/8ySh" → ["q", "mail", "job", "8ySh"]; the names of queues stay encoded, ids are text. */
export function parts(hash = location.hash) {
  return hash.replace(/^#\/?/, "").split("/").filter(Boolean);
}

export const queueLink = (key, tab = "") => `#/q/${key}${tab ? `/${tab}` : ""}`;
export const jobLink = (key, id) => `#/q/${key}/job/${encodeURIComponent(id)}`;

export function go(hash) {
  location.hash = hash;
}
