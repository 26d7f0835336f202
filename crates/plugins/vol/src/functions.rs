//! The functions of HDF5 that the connector calls, found in the library that loaded it.

use std::ffi::{c_char, c_int, c_uint, c_void};

use forebay_libhdf5::{
    hdf5_functions,
    hdf5_types::{herr_t, hid_t, hsize_t, htri_t},
};

/// A pointer that is passed on as it is.
pub(crate) type RawPointer = *mut c_void;

hdf5_functions! {
    /// What the connector calls of one libhdf5.
    pub(crate) struct VolFunctions {
        // Connectors, handles, property lists.
        fn H5Iinc_ref(hid_t) -> c_int;
        fn H5Idec_ref(hid_t) -> c_int;
        fn H5allocate_memory(usize, bool) -> RawPointer;
        fn H5free_memory(RawPointer) -> herr_t;
        fn H5Pcopy(hid_t) -> hid_t;
        fn H5Pclose(hid_t) -> herr_t;
        fn H5Pequal(hid_t, hid_t) -> htri_t;
        fn H5Pexist(hid_t, *const c_char) -> htri_t;
        fn H5Pget(hid_t, *const c_char, RawPointer) -> herr_t;
        fn H5Pget_size(hid_t, *const c_char, *mut usize) -> herr_t;
        fn H5Pset_vol(hid_t, hid_t, RawPointer) -> herr_t;
        fn H5Pget_vol_info(hid_t, *mut RawPointer) -> herr_t;
        fn H5Pget_driver(hid_t) -> hid_t;
        fn H5Pset_driver(hid_t, hid_t, *const c_void) -> herr_t;
        fn H5Pset_fapl_sec2(hid_t) -> herr_t;
        fn H5FDregister(*const c_void) -> hid_t;
        fn H5Pget_layout(hid_t) -> c_int;
        fn H5Pget_chunk(hid_t, c_int, *mut hsize_t) -> c_int;
        fn H5Pget_nfilters(hid_t) -> c_int;
        fn H5Pget_external_count(hid_t) -> c_int;
        fn H5Pget_fill_time(hid_t, *mut c_int) -> herr_t;
        fn H5Pfill_value_defined(hid_t, *mut c_int) -> herr_t;
        fn H5Pget_userblock(hid_t, *mut hsize_t) -> herr_t;
        fn H5Pget_data_transform(hid_t, *mut c_char, usize) -> isize;
        fn H5Pget_type_conv_cb(hid_t, *mut RawPointer, *mut RawPointer) -> herr_t;
        // Types and spaces.
        fn H5Tcopy(hid_t) -> hid_t;
        fn H5Tclose(hid_t) -> herr_t;
        fn H5Tequal(hid_t, hid_t) -> htri_t;
        fn H5Tget_size(hid_t) -> usize;
        fn H5Tget_class(hid_t) -> c_int;
        fn H5Tis_variable_str(hid_t) -> htri_t;
        fn H5Tget_nmembers(hid_t) -> c_int;
        fn H5Tget_member_type(hid_t, c_uint) -> hid_t;
        fn H5Tget_super(hid_t) -> hid_t;
        fn H5Tconvert(hid_t, hid_t, usize, RawPointer, RawPointer, hid_t) -> herr_t;
        fn H5Screate_simple(c_int, *const hsize_t, *const hsize_t) -> hid_t;
        fn H5Sclose(hid_t) -> herr_t;
        fn H5Sget_simple_extent_type(hid_t) -> c_int;
        fn H5Sget_simple_extent_dims(hid_t, *mut hsize_t, *mut hsize_t) -> c_int;
        fn H5Sget_select_type(hid_t) -> c_int;
        fn H5Sget_select_npoints(hid_t) -> i64;
        fn H5Sselect_valid(hid_t) -> htri_t;
        fn H5Sselect_hyperslab(hid_t, c_int, *const hsize_t, *const hsize_t, *const hsize_t, *const hsize_t) -> herr_t;
        fn H5Ssel_iter_create(hid_t, usize, c_uint) -> hid_t;
        fn H5Ssel_iter_get_seq_list(hid_t, usize, usize, *mut usize, *mut usize, *mut hsize_t, *mut usize) -> herr_t;
        fn H5Ssel_iter_close(hid_t) -> herr_t;
        // Connectors under this one.
        fn H5VLregister_connector_by_value(c_int, hid_t) -> hid_t;
        fn H5VLregister_connector_by_name(*const c_char, hid_t) -> hid_t;
        fn H5VLget_connector_id(hid_t) -> hid_t;
        fn H5VLget_value(hid_t, *mut c_int) -> herr_t;
        fn H5VLclose(hid_t) -> herr_t;
        fn H5VLfile_optional_op(*const c_char, *const c_char, c_uint, hid_t, RawPointer, hid_t, hid_t) -> herr_t;
        fn H5VLdataset_optional_op(*const c_char, *const c_char, c_uint, hid_t, RawPointer, hid_t, hid_t) -> herr_t;
        fn H5VLregister_opt_operation(c_int, *const c_char, *mut c_int) -> herr_t;
        fn H5VLfind_opt_operation(c_int, *const c_char, *mut c_int) -> herr_t;
        fn H5VLcmp_connector_cls(*mut c_int, hid_t, hid_t) -> herr_t;
        fn H5VLcopy_connector_info(hid_t, *mut RawPointer, RawPointer) -> herr_t;
        fn H5VLcmp_connector_info(*mut c_int, hid_t, RawPointer, RawPointer) -> herr_t;
        fn H5VLfree_connector_info(hid_t, RawPointer) -> herr_t;
        fn H5VLconnector_info_to_str(RawPointer, hid_t, *mut *mut c_char) -> herr_t;
        fn H5VLconnector_str_to_info(*const c_char, hid_t, *mut RawPointer) -> herr_t;
        // Wrapping.
        fn H5VLget_object(RawPointer, hid_t) -> RawPointer;
        fn H5VLget_wrap_ctx(RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLwrap_object(RawPointer, c_int, hid_t, RawPointer) -> RawPointer;
        fn H5VLunwrap_object(RawPointer, hid_t) -> RawPointer;
        fn H5VLfree_wrap_ctx(RawPointer, hid_t) -> herr_t;
        // Attributes.
        fn H5VLattr_create(RawPointer, RawPointer, hid_t, RawPointer, hid_t, hid_t, hid_t, hid_t, hid_t, *mut RawPointer) -> RawPointer;
        fn H5VLattr_open(RawPointer, RawPointer, hid_t, RawPointer, hid_t, hid_t, *mut RawPointer) -> RawPointer;
        fn H5VLattr_read(RawPointer, hid_t, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLattr_write(RawPointer, hid_t, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLattr_get(RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLattr_specific(RawPointer, RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLattr_optional(RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLattr_close(RawPointer, hid_t, hid_t, *mut RawPointer) -> herr_t;
        // Data sets.
        fn H5VLdataset_create(RawPointer, RawPointer, hid_t, RawPointer, hid_t, hid_t, hid_t, hid_t, hid_t, hid_t, *mut RawPointer) -> RawPointer;
        fn H5VLdataset_open(RawPointer, RawPointer, hid_t, RawPointer, hid_t, hid_t, *mut RawPointer) -> RawPointer;
        fn H5VLdataset_read(usize, *mut RawPointer, hid_t, *mut hid_t, *mut hid_t, *mut hid_t, hid_t, *mut RawPointer, *mut RawPointer) -> herr_t;
        fn H5VLdataset_write(usize, *mut RawPointer, hid_t, *mut hid_t, *mut hid_t, *mut hid_t, hid_t, *mut RawPointer, *mut RawPointer) -> herr_t;
        fn H5VLdataset_get(RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLdataset_specific(RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLdataset_optional(RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLdataset_close(RawPointer, hid_t, hid_t, *mut RawPointer) -> herr_t;
        // Committed types.
        fn H5VLdatatype_commit(RawPointer, RawPointer, hid_t, RawPointer, hid_t, hid_t, hid_t, hid_t, hid_t, *mut RawPointer) -> RawPointer;
        fn H5VLdatatype_open(RawPointer, RawPointer, hid_t, RawPointer, hid_t, hid_t, *mut RawPointer) -> RawPointer;
        fn H5VLdatatype_get(RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLdatatype_specific(RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLdatatype_optional(RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLdatatype_close(RawPointer, hid_t, hid_t, *mut RawPointer) -> herr_t;
        // Files.
        fn H5VLfile_create(*const c_char, c_uint, hid_t, hid_t, hid_t, *mut RawPointer) -> RawPointer;
        fn H5VLfile_open(*const c_char, c_uint, hid_t, hid_t, *mut RawPointer) -> RawPointer;
        fn H5VLfile_get(RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLfile_specific(RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLfile_optional(RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLfile_close(RawPointer, hid_t, hid_t, *mut RawPointer) -> herr_t;
        // Groups.
        fn H5VLgroup_create(RawPointer, RawPointer, hid_t, RawPointer, hid_t, hid_t, hid_t, hid_t, *mut RawPointer) -> RawPointer;
        fn H5VLgroup_open(RawPointer, RawPointer, hid_t, RawPointer, hid_t, hid_t, *mut RawPointer) -> RawPointer;
        fn H5VLgroup_get(RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLgroup_specific(RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLgroup_optional(RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLgroup_close(RawPointer, hid_t, hid_t, *mut RawPointer) -> herr_t;
        // Links.
        fn H5VLlink_create(RawPointer, RawPointer, RawPointer, hid_t, hid_t, hid_t, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLlink_copy(RawPointer, RawPointer, RawPointer, RawPointer, hid_t, hid_t, hid_t, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLlink_move(RawPointer, RawPointer, RawPointer, RawPointer, hid_t, hid_t, hid_t, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLlink_get(RawPointer, RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLlink_specific(RawPointer, RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLlink_optional(RawPointer, RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        // Objects.
        fn H5VLobject_open(RawPointer, RawPointer, hid_t, *mut c_int, hid_t, *mut RawPointer) -> RawPointer;
        fn H5VLobject_copy(RawPointer, RawPointer, RawPointer, RawPointer, RawPointer, RawPointer, hid_t, hid_t, hid_t, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLobject_get(RawPointer, RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLobject_specific(RawPointer, RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        fn H5VLobject_optional(RawPointer, RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
        // What a connector can do.
        fn H5VLintrospect_get_conn_cls(RawPointer, hid_t, c_int, *mut RawPointer) -> herr_t;
        fn H5VLintrospect_get_cap_flags(RawPointer, hid_t, *mut u64) -> herr_t;
        fn H5VLintrospect_opt_query(RawPointer, hid_t, c_int, c_int, *mut u64) -> herr_t;
        // Requests, blobs, tokens.
        fn H5VLrequest_wait(RawPointer, hid_t, u64, *mut c_int) -> herr_t;
        fn H5VLrequest_notify(RawPointer, hid_t, RawPointer, RawPointer) -> herr_t;
        fn H5VLrequest_cancel(RawPointer, hid_t, *mut c_int) -> herr_t;
        fn H5VLrequest_specific(RawPointer, hid_t, RawPointer) -> herr_t;
        fn H5VLrequest_optional(RawPointer, hid_t, RawPointer) -> herr_t;
        fn H5VLrequest_free(RawPointer, hid_t) -> herr_t;
        fn H5VLblob_put(RawPointer, hid_t, RawPointer, usize, RawPointer, RawPointer) -> herr_t;
        fn H5VLblob_get(RawPointer, hid_t, RawPointer, RawPointer, usize, RawPointer) -> herr_t;
        fn H5VLblob_specific(RawPointer, hid_t, RawPointer, RawPointer) -> herr_t;
        fn H5VLblob_optional(RawPointer, hid_t, RawPointer, RawPointer) -> herr_t;
        fn H5VLtoken_cmp(RawPointer, hid_t, RawPointer, RawPointer, *mut c_int) -> herr_t;
        fn H5VLtoken_to_str(RawPointer, c_int, hid_t, RawPointer, *mut RawPointer) -> herr_t;
        fn H5VLtoken_from_str(RawPointer, c_int, hid_t, RawPointer, RawPointer) -> herr_t;
        fn H5VLoptional(RawPointer, hid_t, RawPointer, hid_t, *mut RawPointer) -> herr_t;
    }
}
